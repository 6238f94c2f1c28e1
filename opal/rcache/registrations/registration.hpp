// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/registration.hpp — memory that is registered with a device, as an object of a cache.
// The cache owns it, and a Lease borrows it; range, rights and cookie do not change while a Lease exists.
// The generation is even while the registration is valid, and odd after its invalidation.  So a handle that contains
// the even number is refused from then on.  Threads: getters are safe while a Lease exists.
// The object exists as long as its cache, and is reused for other memory: a thread with an old pointer may find another
// registration, but never freed memory.  Therefore the members that a hit reads are atomic.
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

/// The rights of a registration: bits that the device defines.  A registration serves every subset of its bits.
using Access = std::uint32_t;

/// The device's data of a registration; the cache does not use it.
class Cookie {
 public:
  static constexpr std::size_t kCapacity = 256;

  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity) void set(const T& value) noexcept {
    std::memcpy(bytes_.data(), &value, sizeof(T));
    size_ = sizeof(T);
  }

  /// The value that set() stored.  Requires: T is the type of the last set().
  template <class T>
  requires(std::is_trivially_copyable_v<T> && sizeof(T) <= kCapacity) [[nodiscard]] T get() const noexcept {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }

  [[nodiscard]] ByteSpan bytes() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::size_t size_ = 0;
  alignas(16) std::array<std::byte, kCapacity> bytes_;  // uninitialised beyond size_, to save time
};

/// With policy page_refcount: the pages that one lease uses, as a range.  The reference count of a page is the number
/// of holds that contain it.  Owner: the Lease.  It is in a list of its registration, which the cache's lock protects.
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

  /// First byte; may be below the requested address.
  [[nodiscard]] std::byte* base() const noexcept {
    return reinterpret_cast<std::byte*>(begin());  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] std::size_t length() const noexcept { return end() - begin(); }  ///< bytes from base()
  [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uintptr_t end() const noexcept { return end_.load(std::memory_order_relaxed); }
  [[nodiscard]] Access access() const noexcept { return access_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] bool valid() const noexcept { return generation() % 2 == 0; }

  /// Set by Device::register_memory().
  [[nodiscard]] Cookie& cookie() noexcept { return cookie_; }
  [[nodiscard]] const Cookie& cookie() const noexcept { return cookie_; }

  /// For Device::register_memory(): the registration serves only the present request, because the release of its memory
  /// is not reported.
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

  /// Changes under the cache's lock.
  enum class State : std::uint8_t {
    unused,     ///< in the pool
    pending,    ///< a thread is registering it
    indexed,    ///< serves new requests
    retired,    ///< serves no new requests (lost memory, use_once() or quiesced); deregistered when it has no leases
    condemned,  ///< a thread is deregistering it
  };

  void assign(std::uintptr_t begin, std::size_t length, Access access, std::uint64_t generation) noexcept {
    begin_.store(begin, std::memory_order_relaxed);
    end_.store(begin + length, std::memory_order_relaxed);
    access_.store(access, std::memory_order_relaxed);
    generation_.store(generation, std::memory_order_release);
  }
  /// Unique among all registrations of the cache, also of the past: the generation without the bit for invalidity.
  [[nodiscard]] std::uint64_t identity() const noexcept {
    return generation_.load(std::memory_order_relaxed) & ~std::uint64_t{1};
  }
  void invalidate() noexcept { generation_.fetch_or(1, std::memory_order_release); }

  /// Records a use at time `stamp`.
  void used_at(std::uint64_t stamp) noexcept {
    // No read-modify-write: of two threads at the same time the earlier use may win.  At worst an eviction then chooses
    // a registration that is not the least recently used.
    if (last_use_.load(std::memory_order_relaxed) < stamp) last_use_.store(stamp, std::memory_order_relaxed);
  }

  // One cache line with all that a hit reads.  `serving_` is the generation while the registration serves new requests,
  // else 0.  A reader that finds it unchanged, and not 0, has read the other members of one and the same registration.
  std::atomic<std::uint64_t> serving_{0};
  std::atomic<std::uintptr_t> begin_{0};
  std::atomic<std::uintptr_t> end_{0};
  std::atomic<Access> access_{0};
  std::uint32_t slot_ = 0;                  // index of its slot in every LeaseTable
  std::atomic<std::uint64_t> last_use_{0};  // LeaseTables may contain later uses
  std::atomic<std::int32_t> users_{0};      // leases that no LeaseTable counts; may be negative, see lease_table.hpp

  // The cache's lock protects the members from here on, but for the generation.
  alignas(kCacheLine) std::atomic<std::uint64_t> generation_{1};
  State state_ = State::unused;
  bool once_ = false;            // see use_once()
  bool part_gone_ = false;       // some of its memory was unmapped, and it is counted in Statistics::invalidations
  std::uint64_t withdrawn_ = 0;  // Cache::withdrawals_ when it stopped serving
  std::uint32_t epoch_ = 0;      // Cache::epoch_ when it was registered

  // Node of an IntervalIndex of the cache.
  Registration* left_ = nullptr;
  Registration* right_ = nullptr;
  std::uintptr_t subtree_end_ = 0;

  std::uint64_t priority_ = 0;

  // Node of at most one list: of free, pending or retired registrations, or a list of UseOrder.
  Registration* previous_ = nullptr;
  Registration* next_ = nullptr;
  RegistrationList* list_ = nullptr;
  std::uint64_t rank_ = 0;  // its last use when UseOrder sorted it

  PageHold* holds_ = nullptr;  // list of the holds of its leases, with policy page_refcount

  Cookie cookie_;
};

}  // namespace opal::rcache
