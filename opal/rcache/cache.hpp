// SPDX-License-Identifier: Apache-2.0
// opal/rcache/cache.hpp — a cache of registrations, which are expensive to make with a device.
// get() returns a Lease of a registration that contains the range with the requested rights; it makes one if there is
// none.  A registration without leases is idle.  With leave_pinned off, the end of the last lease deregisters it.  With
// leave_pinned on, it is kept until a limit is reached or the device has no room; then the cache deregisters idle ones,
// the least recently used first, until the new one fits.  docs/design/rcache.md: the policies for overlaps, why hits
// need no lock, what a fork does.
// Owns: all registrations.  All leases end before the cache is destroyed; the device outlives it.
// Threads: safe from any thread.  While the cache holds its lock it calls no device function but invalidated() and
// invalidated_part(), and allocates and frees nothing: malloc may call munmap, which may call invalidate().
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/sync/backlog.hpp"
#include "opal/core/system/fork_listener.hpp"
#include "opal/memory/range.hpp"
#include "opal/rcache/config.hpp"
#include "opal/rcache/device.hpp"
#include "opal/rcache/registrations/hint_table.hpp"
#include "opal/rcache/registrations/interval_index.hpp"
#include "opal/rcache/registrations/lease.hpp"
#include "opal/rcache/registrations/lease_table.hpp"
#include "opal/rcache/registrations/registration_pool.hpp"
#include "opal/rcache/registrations/use_order.hpp"
#include "opal/rcache/statistics.hpp"

namespace opal::rcache {

class OPAL_EXPORT Cache final : private ForkListener {
 public:
  /// Ranges are rounded out to multiples of `granularity`, a power of two.  0: the page size; 1: no rounding.
  explicit Cache(Device& device, const Config& config = {}, std::size_t granularity = 0);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache();

  /// Returns a lease of a registration that contains [address, +length) with at least the rights `access`.
  /// Errors: invalid_argument (empty or wrapping range; unmapped while being registered), limit_reached (no room and
  /// nothing idle to evict), no_memory (bookkeeping), busy (between quiesce() and resume()), and those of the device.
  Result<Lease> get(const void* address, std::size_t length, Access access) noexcept;

  /// As get(), but only for a hit that needs no lock; else the lease is empty, although get() might have a hit.
  Lease hit(const void* address, std::size_t length, Access access) noexcept;

  /// As get(), but only for a hit; the lease is empty if get() would have to register the memory.
  Lease find(const void* address, std::size_t length, Access access) noexcept;

  /// Reports that [address, +length) is being unmapped or replaced.  Registrations that share a byte with it serve no
  /// new request.  One that lies inside it becomes invalid at once.  Of others, the part inside it becomes invalid, and
  /// existing leases may use the remaining part.
  /// Returns the number of registrations that lost memory for the first time.
  /// Safe inside an unmap hook and in a signal handler: it changes links and flags, and calls Device::invalidated() or
  /// invalidated_part().  A later get(), flush() or end of a lease deregisters the memory.  In a signal handler that
  /// interrupts a thread inside the cache's lock it returns 0, and the thread applies the event when it unlocks.
  /// Cost: logarithmic for each registration that loses memory, and linear in the registrations in progress.
  std::size_t invalidate(const void* address, std::size_t length) noexcept;

  /// True if a registration that serves no new requests, but has leases, shares a byte with [address, +length).
  /// Cost: linear in the registrations that serve no new requests.
  [[nodiscard]] bool retired_in_use(const void* address, std::size_t length) const noexcept;

  /// Deregisters everything that has no leases.  Not from within an event.
  void flush() noexcept;

  // Checkpoints (docs/design/checkpoint.md): called by the owner of the cache; btl::Module calls its own.

  /// From now on get() fails with `busy`.  Idle registrations are deregistered here, others at the end of their leases.
  void quiesce() noexcept;
  /// Success if no memory is registered.  Errors: busy (not quiesced, or detail = the number of registrations in use).
  Result<void> checkpoint() noexcept;
  /// Ends quiesce(): get() registers again.  Also after a restart, with a device that has no registrations.
  void resume() noexcept;

  /// The counts so far, and the idle registrations.  Cost: linear in the registrations, with the lock held.
  [[nodiscard]] Statistics statistics() const noexcept;

  [[nodiscard]] const Config& config() const noexcept { return config_; }

 private:
  friend class Lease;

  /// The range and rights of a get(), rounded to the granularity.
  struct Request {
    std::uintptr_t begin;
    std::uintptr_t end;
    Access access;
  };
  /// The number of leases of a registration, and the time of its last use by the clock of the LeaseTables.
  struct Use {
    std::int64_t users = 0;
    std::uint64_t last = 0;
  };

  /// Locks `mutex_`.  A fork sets `forking_` instead of holding `mutex_`: then users wait, but events do not.  Reason:
  /// events come from inside malloc, and fork() takes malloc's locks after the handlers of fork.cpp.  So the child
  /// finds all members consistent but those that an event changes.  unlock() applies the events of signal handlers.
  class Lock {
   public:
    enum class For : std::uint8_t { use, event };
    explicit Lock(const Cache& cache, For what = For::use) noexcept
        : cache_(cache), held_(cache.mutex_, std::defer_lock), what_(what) {
      lock();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      if (held_.owns_lock()) unlock();
    }
    /// Releases the lock until `released_` is signalled, `ready()` is true and no fork is in flight.
    template <class Ready>
    void wait(Ready ready) noexcept {
      cache_.released_.wait(held_, [&] { return !cache_.forking_ && ready(); });
    }
    OPAL_EXPORT void unlock() noexcept;
    OPAL_EXPORT void lock() noexcept;

   private:
    const Cache& cache_;
    std::unique_lock<std::mutex> held_;
    const Cache* outer_ = nullptr;  // the cache whose lock this thread held before, if it is in a signal handler
    const For what_;
  };

  // events.cpp
  void apply_backlog_locked() noexcept;
  std::size_t invalidate_locked(memory::Range gone) noexcept;
  void lose_locked(Registration& registration, memory::Range gone, std::size_t& count) noexcept;

  // cache.cpp: hits and ends of leases
  Error refuse(const Error& error) noexcept;
  Registration* follow_hint(const Request& request, LeaseTable* table) noexcept;
  bool try_lease(LeaseTable& table, Registration& registration, const Request& request) const noexcept;
  [[nodiscard]] std::optional<Request> request_of(const void* address, std::size_t length,
                                                  Access access) const noexcept;
  [[gnu::noinline]] Result<Lease> get_slowly(const Request& request, LeaseTable* table) noexcept;
  Result<std::unique_ptr<PageHold>> make_hold(const Request& request) const noexcept;
  Lease hit_locked(const Request& request, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept;
  Lease lease_locked(Registration& registration, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept;
  void give_back_counted(Registration& registration, PageHold* hold) noexcept;

  // users.cpp: uses of registrations
  LeaseTable* make_lease_table() noexcept;
  [[nodiscard]] Use use_of_locked(const Registration& registration) const noexcept;
  [[nodiscard]] bool pages_held_locked(const Registration& registration) const noexcept;
  [[nodiscard]] bool idle_locked(const Registration& registration, Use& use) const noexcept;
  void stop_serving_locked(Registration& registration) noexcept;
  void know_all_users_locked(const Registration& registration) noexcept;
  [[nodiscard]] bool this_thread_alone_locked() const noexcept;
  void advance_clock_locked() noexcept;

  // A function with a parameter `lock` is called with the lock, and returns with it.  It releases the lock while it
  // calls the device or the heap, or waits.

  // miss.cpp: new registrations
  Result<Lease> register_new(const Request& request, Lock& lock, LeaseTable* table,
                             std::unique_ptr<PageHold>& hold) noexcept;
  Result<Registration*> make_pending(const Request& range, Lock& lock) noexcept;
  Result<void> register_with_device(Registration& pending, Lock& lock) noexcept;
  Result<void> grow_pool(Lock& lock) noexcept;
  void grow_hints(Lock& lock) noexcept;
  void enter_index_locked(Registration& registration) noexcept;
  [[nodiscard]] bool within_limits_locked(std::size_t more_bytes) const noexcept;

  // undo.cpp: the end of registrations
  Result<void> make_room(std::uint64_t releases_seen, const Error& otherwise, Lock& lock) noexcept;
  Registration* oldest_idle_locked() noexcept;
  Registration* evicted_locked() noexcept;
  void stop_serving_oldest_locked() noexcept;
  void withdraw_locked(Registration& registration) noexcept;
  static void serve_locked(Registration& registration) noexcept;
  void retire_locked(Registration& registration) noexcept;
  Registration* unused_locked(std::uintptr_t begin, std::uintptr_t end) const noexcept;
  [[nodiscard]] bool unused_for_good_locked(const Registration& retired) noexcept;
  Registration* unused_retired_locked(std::size_t most) noexcept;
  void release(Registration& registration, Lock& lock) noexcept;
  void recycle_locked(Registration& gone) noexcept;
  void release_retired(std::size_t most, Lock& lock) noexcept;
  void undo_if_unused(Registration& registration) noexcept;
  void undo_if_unused(Registration& registration, Lock& lock) noexcept;

  // fork.cpp
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  Device& device_;
  const Config config_;
  const bool counted_under_lock_;  // leases are counted under the lock, not in LeaseTables
  const std::size_t granularity_;
  const std::uint64_t id_;  // unique in the process; never used again
  HintTable hints_;

  alignas(kCacheLine) mutable std::mutex mutex_;
  mutable std::condition_variable released_;  // signalled after each deregistration, and after a fork
  bool forking_ = false;
  IntervalIndex index_;                 // the registrations that serve new requests
  UseOrder order_;                      // the same ones, by last use
  RegistrationList pending_;            // a thread is registering them with the device
  RegistrationList retired_;            // serve no new requests; to be deregistered when they have no leases
  IntervalIndex retired_valid_;         // the valid ones of retired_, which events may still invalidate
  Backlog<memory::Range, 16> backlog_;  // events of signal handlers that interrupted a thread inside the lock
  RegistrationPool pool_;
  std::shared_ptr<LeaseTable> tables_;   // list of the tables of all threads; those of ended threads are reused
  std::atomic<std::uint64_t> clock_{1};  // at least the LeaseTables' clocks at the last advance_clock_locked()
  std::uint64_t next_generation_ = 2;
  std::uint64_t withdrawals_ = 0;  // number of times that a registration stopped serving
  std::uint64_t fenced_ = 0;       // withdrawals_ at the last fence: use_of_locked() is exact for those before it
  std::uint32_t epoch_ = 0;        // forks since the construction of which this process is the child
  bool quiesced_ = false;          // between quiesce() and resume()
  std::uint64_t entries_ = 0;      // insertions into index_ so far
  std::uint64_t releases_ = 0;     // deregistrations and failed registrations so far: a change may mean more room
  std::uint64_t releasing_ = 0;    // deregistrations in flight
  Statistics statistics_;          // without the hits that LeaseTables count; `idle` is unused
};

}  // namespace opal::rcache
