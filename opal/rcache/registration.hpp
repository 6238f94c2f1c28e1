// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registration.hpp — memory made known to a device, as a cache keeps it.
// Owned by its cache; users borrow it between get() and put().  Range, rights and cookie never change while borrowed.
// The generation is even while the registration is good and becomes odd when it is invalidated, so that a handle which
// carries the even number is refused from that moment on.  Threads: getters are safe while the registration is
// borrowed.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "opal/core/bytes.hpp"

namespace opal::rcache {

/// What may be done with the memory: bits whose meaning is the device's.  A registration serves every subset of its
/// bits.
using Access = std::uint32_t;

/// What the device needs to remember about a registration; the cache never looks inside.
class Cookie {
 public:
  static constexpr std::size_t kCapacity = 256;

  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity) void set(const T& value) noexcept {
    std::memcpy(bytes_.data(), &value, sizeof(T));
    size_ = sizeof(T);
  }

  /// The value that set() stored.
  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity) [[nodiscard]] T get() const noexcept {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }

  [[nodiscard]] ByteSpan bytes() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::size_t size_ = 0;
  alignas(16) std::array<std::byte, kCapacity> bytes_;  // uninitialised up to size_: copying 256 bytes of nothing costs
};

class Registration {
 public:
  Registration(std::uintptr_t begin, std::size_t length, Access access, std::uint64_t generation) noexcept
      : begin_(begin), length_(length), access_(access), generation_(generation), id_(generation) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  /// First byte; at or below the address that was asked for.
  [[nodiscard]] std::byte* base() const noexcept {
    return reinterpret_cast<std::byte*>(begin_);  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] std::size_t length() const noexcept { return length_; }  ///< bytes from base()
  [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uintptr_t end() const noexcept { return begin_ + length_; }
  [[nodiscard]] Access access() const noexcept { return access_; }

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] bool valid() const noexcept { return generation() % 2 == 0; }

  /// Filled by Device::register_memory.
  [[nodiscard]] Cookie& cookie() noexcept { return cookie_; }
  [[nodiscard]] const Cookie& cookie() const noexcept { return cookie_; }

  [[nodiscard]] bool contains(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    return begin_ <= begin && end <= this->end();
  }
  [[nodiscard]] bool allows(Access access) const noexcept { return (access & ~access_) == 0; }

 private:
  friend class IntervalIndex;
  friend class RegistrationList;
  friend class Grdma;

  void invalidate() noexcept { generation_.fetch_or(1, std::memory_order_release); }

  const std::uintptr_t begin_;
  const std::size_t length_;
  const Access access_;
  std::uint32_t users_ = 0;  // under the cache's lock
  std::atomic<std::uint64_t> generation_;
  const std::uint64_t id_;  // the generation it was born with; orders equal ranges

  // Node of the cache's index: see interval_index.hpp.
  Registration* left_ = nullptr;
  Registration* right_ = nullptr;
  std::uintptr_t subtree_end_ = 0;

  // Node of at most one list: idle, dead, orphaned or being registered.
  Registration* previous_ = nullptr;
  Registration* next_ = nullptr;

  Cookie cookie_;
};

}  // namespace opal::rcache
