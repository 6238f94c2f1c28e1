// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/lease_table.hpp — how many leases one thread took of each registration of one cache, so
// that threads that share a registration share no cache line which they write. Written by its thread only; read by a
// thread that withdraws a registration, under the cache's lock.  Such a reader adds up the slots of all tables and then
// Registration::users_.  A lease given back by another thread, or one whose slot went to another registration, counts
// in users_: only the sum means something. Why no lease is missed: add() publishes the lease and then its caller looks
// whether the registration still serves; the withdrawing thread takes the service away, makes all threads fence
// (asymmetric_fence.hpp) and then adds up: so either the caller sees that it serves no more, or the sum contains the
// lease.  Slots only shrink from then on, and what leaves one without ending is in users_ before, which is read last:
// the sum is never too small.
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

  /// The slot of a pool's registration number `n`: numbers in a row, or at any regular distance, spread evenly (Knuth,
  /// TAOCP 3, 6.4: Fibonacci hashing).
  static constexpr std::uint32_t slot_of_number(std::size_t n) noexcept {
    return (static_cast<std::uint32_t>(n) * 2654435769U) >> (32 - std::countr_zero(kSlots));
  }

  /// Counts one more lease.
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
    // Only now: see there.  The exchange is a fence that ThreadSanitizer understands.
    if (!asymmetric_fence::fast()) [[unlikely]]
      slot.word.exchange(word + 1, std::memory_order_seq_cst);
  }

  /// Counts one less, taken by whatever thread, and notes a use after `earliest`.
  void subtract(Registration& registration, std::uint64_t earliest) noexcept {
    const std::uint64_t now = tick(earliest);
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

  /// The time of a use now, later than `earliest`.
  std::uint64_t tick(std::uint64_t earliest) noexcept {
    const std::uint64_t now = std::max(clock(), earliest) + 1;
    clock_.store(now, std::memory_order_relaxed);
    return now;
  }

  void count_hit() noexcept { hits_.store(hits() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t hits() const noexcept { return hits_.load(std::memory_order_relaxed); }

  /// The time of this thread's last use.  Threads agree on the order of uses as far as the cache's clock is advanced.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_.load(std::memory_order_relaxed); }

  /// Adds what this table knows of the registration.  From any thread.
  void look_up(const Registration& registration, std::int64_t& users, std::uint64_t& last_use) const noexcept {
    const Slot& slot = slots_[registration.slot_];
    const std::uint64_t word = slot.word.load(std::memory_order_seq_cst);
    if (owner(word) != &registration) return;
    users += static_cast<std::int64_t>(count(word));
    last_use = std::max(last_use, slot.last_use.load(std::memory_order_relaxed));
  }

  // For the cache, under its lock.
  std::shared_ptr<LeaseTable> next;     ///< of the same cache
  std::atomic<bool> abandoned{false};   ///< its thread has ended: the next new thread takes it over, counts and all
  std::atomic<bool> cache_gone{false};  ///< its thread may forget it

 private:
  /// A registration's address above 16 bits of leases.
  struct Slot {
    std::atomic<std::uint64_t> word{0};
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

  /// Moves what the slot holds to its registration.
  static void hand_over(Slot& slot, std::uint64_t word) noexcept {
    Registration& old = *owner(word);
    old.used_at(slot.last_use.load(std::memory_order_relaxed));
    if (count(word) > 0) old.users_.fetch_add(static_cast<std::int32_t>(count(word)), std::memory_order_seq_cst);
  }

  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> clock_{0};
  std::array<Slot, kSlots> slots_;
};

/// A few of the calling thread's tables, without constructor or destructor: this is read on every hit.
struct LeaseTablePlace {
  std::uint64_t cache_id = 0;  // 0: empty, no cache is called so
  LeaseTable* table = nullptr;
};
// Initial-exec: no call to find it, and the library's share of the static TLS block stays under 100 bytes.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern constinit thread_local std::array<LeaseTablePlace, 4>
    lease_table_places;
LeaseTable* my_other_lease_table(std::uint64_t cache_id) noexcept;

/// The calling thread's table for the cache called `cache_id`; null when it has none yet, or is about to end.
inline LeaseTable* my_lease_table(std::uint64_t cache_id) noexcept {
  const LeaseTablePlace& place = lease_table_places[cache_id % lease_table_places.size()];
  return place.cache_id == cache_id ? place.table : my_other_lease_table(cache_id);
}

/// Makes `table` the calling thread's one.  Until the thread ends, which abandons the table.
/// False when that is not possible any more or memory is short: then the thread goes without.
bool adopt_lease_table(std::uint64_t cache_id, const std::shared_ptr<LeaseTable>& table) noexcept;

}  // namespace opal::rcache
