// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/lease_table.hpp — counts the leases that one thread took of each registration of one cache.
// So threads that use the same registration write to no common cache line.
// Writer: its thread only.  Readers: threads that hold the cache's lock; they add the slots of all tables, and last
// Registration::users_.  users_ counts the leases that have no slot, and may be negative: it goes down when a lease
// ends on a thread whose slot does not count it.  Only the sum is the number of leases.
//
// Why the sum misses no lease: the thread of a hit calls add() and then loads Registration::serving_.  The thread that
// withdraws the registration clears serving_, makes all threads fence (asymmetric_fence.hpp), and then reads the sum.
// So either the hit finds serving_ cleared, or the sum contains its lease.  After the fence slots only shrink.  A count
// that moves from a slot to users_ is added to users_ first, and users_ is read last.  So the sum is never too small.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/sync/asymmetric_fence.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class alignas(kCacheLine) LeaseTable {
 public:
  static constexpr std::size_t kSlots = 256;  // a power of two

  /// The slot for registration number `n` of a pool.  Numbers at any constant distance spread evenly (Fibonacci
  /// hashing: Knuth, TAOCP 3, 6.4).
  static constexpr std::uint32_t slot_of_number(std::size_t n) noexcept {
    return (static_cast<std::uint32_t>(n) * 2654435769U) >> (32 - std::countr_zero(kSlots));
  }

  /// Counts a new lease of this thread.  If the slot belongs to another registration, its count moves to that one's
  /// users_.  The caller then checks that the registration still serves, and calls subtract() if not.
  void add(Registration& registration) noexcept {
    Slot& slot = slot_of(registration);
    std::uint64_t word = slot.word.load(std::memory_order_relaxed);
    if (owner(word) != &registration) {
      if (word != 0) hand_over(slot, word);
      word = empty_word(registration);
    }
    if (count(word) == kMostCounted) [[unlikely]] {
      registration.users_.fetch_add(1, std::memory_order_seq_cst);
      return;
    }
    slot.word.store(word + 1, std::memory_order_release);
    asymmetric_fence::keep_order();
    // ThreadSanitizer understands the exchange as a fence.
    if (!asymmetric_fence::fast()) [[unlikely]]
      slot.word.exchange(word + 1, std::memory_order_seq_cst);
  }

  /// Counts the end of a lease on this thread; any thread may have taken it.  Advances this table's
  /// clock beyond `earliest`, and records a use at that time.
  void subtract(Registration& registration, std::uint64_t earliest) noexcept {
    const std::uint64_t now = std::max(clock(), earliest) + 1;
    clock_.store(now, std::memory_order_relaxed);
    Slot& slot = slot_of(registration);
    const std::uint64_t word = slot.word.load(std::memory_order_relaxed);
    if (owner(word) == &registration && count(word) > 0) {
      slot.last_use.store(now, std::memory_order_relaxed);
      slot.word.store(word - 1, std::memory_order_release);
    } else {
      registration.used_at(now);
      registration.users_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  void count_hit() noexcept { hits_.store(hits() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t hits() const noexcept { return hits_.load(std::memory_order_relaxed); }

  /// The time of this thread's last use, a count.  Times of two threads are comparable only if the cache's clock was
  /// advanced between the two uses.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_.load(std::memory_order_relaxed); }

  /// Adds this table's leases of the registration to `users`, and raises `last_use` to its last use here.  Any thread.
  void look_up(const Registration& registration, std::int64_t& users, std::uint64_t& last_use) const noexcept {
    const Slot& slot = slots_[registration.slot_];
    const std::uint64_t word = slot.word.load(std::memory_order_seq_cst);
    if (owner(word) != &registration) return;
    users += static_cast<std::int64_t>(count(word));
    last_use = std::max(last_use, slot.last_use.load(std::memory_order_relaxed));
  }

  // For the cache.  It changes `next` under its lock.
  std::shared_ptr<LeaseTable> next;     ///< the next table of the same cache
  std::atomic<bool> abandoned{false};   ///< its thread has ended: a new thread takes it over with its counts
  std::atomic<bool> cache_gone{false};  ///< the cache was destroyed: its thread may drop the table

 private:
  struct Slot {
    std::atomic<std::uint64_t> word{0};  // address of a registration << 16 | number of leases
    std::atomic<std::uint64_t> last_use{0};
  };
  static constexpr std::uint64_t kMostCounted = 0xffff;

  static Registration* owner(std::uint64_t word) noexcept {
    return reinterpret_cast<Registration*>(static_cast<std::uintptr_t>(word >> 16));  // NOLINT
  }
  static std::uint64_t count(std::uint64_t word) noexcept { return word & kMostCounted; }
  static std::uint64_t empty_word(const Registration& registration) noexcept {
    return std::uint64_t{reinterpret_cast<std::uintptr_t>(&registration)} << 16;
  }
  Slot& slot_of(const Registration& registration) noexcept { return slots_[registration.slot_]; }

  /// Moves the count and the last use of the slot, which contains `word`, to its registration.
  static void hand_over(Slot& slot, std::uint64_t word) noexcept {
    Registration& old = *owner(word);
    old.used_at(slot.last_use.load(std::memory_order_relaxed));
    if (count(word) > 0) old.users_.fetch_add(static_cast<std::int32_t>(count(word)), std::memory_order_seq_cst);
  }

  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> clock_{0};
  std::array<Slot, kSlots> slots_;
};

/// A small cache of the calling thread's tables, which each hit reads.  It has no constructor or destructor.
struct LeaseTablePlace {
  std::uint64_t cache_id = 0;  // 0: empty; no cache has this id
  LeaseTable* table = nullptr;
};
// Initial-exec: an access calls no function.  The library uses less than 100 bytes of the static TLS block.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern constinit thread_local std::array<LeaseTablePlace, 4>
    lease_table_places;
LeaseTable* my_other_lease_table(std::uint64_t cache_id) noexcept;

/// The calling thread's table for the cache with this id.  Null if it has none yet, or if the thread is ending.
inline LeaseTable* my_lease_table(std::uint64_t cache_id) noexcept {
  const LeaseTablePlace& place = lease_table_places[cache_id % lease_table_places.size()];
  return place.cache_id == cache_id ? place.table : my_other_lease_table(cache_id);
}

/// Makes `table` the calling thread's table for the cache, until the end of the thread sets `abandoned`.
/// False: the thread is ending or memory is short; it has no table.
bool adopt_lease_table(std::uint64_t cache_id, const std::shared_ptr<LeaseTable>& table) noexcept;

}  // namespace opal::rcache
