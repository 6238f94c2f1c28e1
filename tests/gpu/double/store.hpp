// SPDX-License-Identifier: Apache-2.0
// tests/gpu/double/store.hpp — the bytes of "device memory": a nameless file, mapped for the double alone.
// The program sees only addresses at which nothing is mapped, so that it cannot read device memory by accident.
// Owns: descriptor and mapping.  Other processes open it by /proc/PID/fd and check the serial number in its name.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace opal::cuda_double {

class Store {
 public:
  /// Null without memory.
  static std::shared_ptr<Store> create(std::size_t size);
  /// The one with this serial that `pid` has as `fd`; null when there is none any more.
  static std::shared_ptr<Store> open(pid_t pid, int fd, std::uint64_t serial);
  /// From a descriptor that came by whatever way, which stays the caller's; null when it is not one of ours.
  static std::shared_ptr<Store> adopt(int fd);

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  [[nodiscard]] std::byte* bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }

 private:
  Store(int fd, std::byte* bytes, std::size_t size, std::uint64_t serial) noexcept
      : fd_(fd), bytes_(bytes), size_(size), serial_(serial) {}
  static std::shared_ptr<Store> map(int fd, std::uint64_t serial);

  int fd_;
  std::byte* bytes_;
  std::size_t size_;
  std::uint64_t serial_;  // of the file, in the machine, until the process ids wrap around
};

}  // namespace opal::cuda_double
