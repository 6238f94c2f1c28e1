// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/attached.hpp — what one rank has attached to a dynamic window, in memory that its host shares:
// the others read it themselves, so that an access needs no help of the owner.  What does not fit is not in it; a
// reader that does not find an address here asks the owner. One process writes; others read at any time (a sequence
// lock: the version is odd while the table changes).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "mpi_shim/base/names.hpp"

namespace mpi_shim::rma {

struct AttachedRegion {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  std::uint64_t key_size = 0;
  std::array<std::byte, 192> key{};  ///< of its registration; one of GPU memory is the longest

  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

class AttachedTable {
 public:
  /// Owner only: replaces all entries.
  void publish(const std::vector<AttachedRegion>& regions) noexcept;

  /// Changes with the table; for readers that remember what they have read.
  [[nodiscard]] std::uint32_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  /// All entries, and the version that they have.
  std::uint32_t read(std::vector<AttachedRegion>& regions) const;

 private:
  static constexpr std::size_t kMost = 1024;
  static constexpr std::size_t kKeyWords = sizeof(AttachedRegion::key) / sizeof(std::uint64_t);
  struct Entry {
    std::atomic<std::uint64_t> base;
    std::atomic<std::uint64_t> size;
    std::atomic<std::uint64_t> key_size;
    std::array<std::atomic<std::uint64_t>, kKeyWords> key;
  };
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> count_{0};
  std::array<Entry, kMost> entries_{};
};

}  // namespace mpi_shim::rma
