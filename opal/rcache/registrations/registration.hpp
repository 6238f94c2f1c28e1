// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/registration.hpp — memory made known to a device, as a cache keeps it.
// Owned by its cache, borrowed by a Lease; range, rights and cookie never change while one exists.
// The generation is even while the registration is good and becomes odd when it is invalidated, so that a handle which
// carries the even number is refused from that moment on.  Threads: getters are safe while a Lease exists.
// The object itself lives as long as its cache and is used again for other memory: a reader that comes too late finds
// another registration there, never freed memory.  That is why what a hit reads is atomic.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "opal/core/bytes.hpp"

namespace opal::rcache {

class RegistrationList;

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

/// With policy page_refcount: the pages that one lease uses.  A page's count is the number of holds that contain it;
/// kept as ranges, since a range of a gigabyte has many pages, and GPU addresses have none.  Owned by its Lease, linked
/// to its registration, under the cache's lock.
struct PageHold {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  PageHold* previous = nullptr;
  PageHold* next = nullptr;
};

class alignas(kCacheLine) Registration {
 public:
  Registration() noexcept = default;
  Registration(std::uintptr_t begin, std::size_t length, Access access, std::uint64_t generation) noexcept {
    assign(begin, length, access, generation);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  /// First byte; at or below the address that was asked for.
  [[nodiscard]] std::byte* base() const noexcept {
    return reinterpret_cast<std::byte*>(begin());  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] std::size_t length() const noexcept { return end() - begin(); }  ///< bytes from base()
  [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uintptr_t end() const noexcept { return end_.load(std::memory_order_relaxed); }
  [[nodiscard]] Access access() const noexcept { return access_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] bool valid() const noexcept { return generation() % 2 == 0; }

  /// Filled by Device::register_memory.
  [[nodiscard]] Cookie& cookie() noexcept { return cookie_; }
  [[nodiscard]] const Cookie& cookie() const noexcept { return cookie_; }

  /// From Device::register_memory: it serves only the request it is made for, since it is not reported when its memory
  /// goes.
  void use_once() noexcept { once_ = true; }

  [[nodiscard]] bool contains(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    return this->begin() <= begin && end <= this->end();
  }
  [[nodiscard]] bool overlaps(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    return this->begin() < end && begin < this->end();
  }
  [[nodiscard]] bool allows(Access access) const noexcept { return (access & ~this->access()) == 0; }

 private:
  friend class Cache;
  friend class HintTable;
  friend class IntervalIndex;
  friend class Lease;
  friend class LeaseTable;
  friend class RegistrationList;
  friend class RegistrationPool;
  friend class UseOrder;

  /// Where a registration is in its life.  Changes under the cache's lock.
  enum class State : std::uint8_t {
    unused,     ///< in the pool
    pending,    ///< some thread is registering it
    indexed,    ///< serves requests
    retired,    ///< serves no new requests (invalid, or replaced by a larger one); undone when unused
    condemned,  ///< some thread is deregistering it
  };

  void assign(std::uintptr_t begin, std::size_t length, Access access, std::uint64_t generation) noexcept {
    begin_.store(begin, std::memory_order_relaxed);
    end_.store(begin + length, std::memory_order_relaxed);
    access_.store(access, std::memory_order_relaxed);
    generation_.store(generation, std::memory_order_release);
  }
  /// Tells registrations of one begin apart for good: the generation without its mark of invalidity.
  [[nodiscard]] std::uint64_t identity() const noexcept {
    return generation_.load(std::memory_order_relaxed) & ~std::uint64_t{1};
  }
  void invalidate() noexcept { generation_.fetch_or(1, std::memory_order_release); }

  /// Notes a use at time `stamp`.
  void used_at(std::uint64_t stamp) noexcept {
    // No read-modify-write: of two threads at the same time the earlier use may win, which costs an eviction's best
    // choice at worst.
    if (last_use_.load(std::memory_order_relaxed) < stamp) last_use_.store(stamp, std::memory_order_relaxed);
  }

  // One cache line: all that a hit reads.  `serving_` is the generation while new requests may be served, else 0; it
  // never takes the same value twice, so a reader that sees it unchanged has read one and the same registration.
  std::atomic<std::uint64_t> serving_{0};
  std::atomic<std::uintptr_t> begin_{0};
  std::atomic<std::uintptr_t> end_{0};
  std::atomic<Access> access_{0};
  std::uint32_t slot_ = 0;                  // in every LeaseTable; the pool spreads them
  std::atomic<std::uint64_t> last_use_{0};  // at least; LeaseTables may know of later uses
  std::atomic<std::int32_t> users_{0};      // leases that no LeaseTable counts: may be negative, the sum counts

  // From here on under the cache's lock, but for the generation.
  alignas(kCacheLine) std::atomic<std::uint64_t> generation_{1};
  State state_ = State::unused;
  bool once_ = false;
  bool part_gone_ = false;       // some of its memory was unmapped: counted as an invalidation
  std::uint64_t withdrawn_ = 0;  // the number of the last time that it stopped serving
  std::uint32_t epoch_ = 0;      // forks that the process had seen when this was registered

  // Node of the cache's index: see interval_index.hpp.
  Registration* left_ = nullptr;
  Registration* right_ = nullptr;
  std::uintptr_t subtree_end_ = 0;

  std::uint64_t priority_ = 0;

  // Node of at most one list; by its state: of free ones, of pending ones, in the order of use, of retired ones.
  Registration* previous_ = nullptr;
  Registration* next_ = nullptr;
  RegistrationList* list_ = nullptr;
  std::uint64_t rank_ = 0;  // the last use by which it was sorted: see use_order.hpp

  PageHold* holds_ = nullptr;  // of its leases, with policy page_refcount

  Cookie cookie_;
};

}  // namespace opal::rcache
