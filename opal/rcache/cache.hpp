// SPDX-License-Identifier: Apache-2.0
// opal/rcache/cache.hpp — keeps registrations of memory between a device, where they are expensive, and its users.
// get() finds a registration that contains the range with enough rights, or makes one.  An unused one is idle:
// undone at once (leave_pinned off) or kept (on) until a limit is reached or the device has no room; then idle ones are
// undone one at a time, the one used longest ago first, until the new one fits.  docs/design/rcache.md: the policies
// for overlaps, why hits need no lock, what a fork does. Owns: every registration.  Destroy it when nothing is borrowed
// any more.  Threads: safe from any thread.  No device function is called, and nothing is allocated or freed, while the
// cache holds its lock: a device may call malloc, malloc may munmap, and that may report to invalidate().
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
#include "opal/core/system/fork_listener.hpp"
#include "opal/memory/range.hpp"
#include "opal/rcache/config.hpp"
#include "opal/rcache/device.hpp"
#include "opal/rcache/event_backlog.hpp"
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
  /// Ranges are rounded to multiples of `granularity`, a power of two: 0 takes the machine's page size, 1 rounds
  /// nothing.
  explicit Cache(Device& device, const Config& config = {}, std::size_t granularity = 0);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache();

  /// A valid registration that contains [address, +length) with at least these rights, for as long as the lease.
  /// Errors: invalid_argument (empty or wrapping range; unmapped while being registered), limit_reached (no room and
  /// nothing idle to evict), no_memory (bookkeeping), and what the device says.
  Result<Lease> get(const void* address, std::size_t length, Access access) noexcept;

  /// A hit of get() that takes no lock, counted as one; empty also when only a look under the lock would find
  /// something.
  Lease hit(const void* address, std::size_t length, Access access) noexcept;

  /// What get() would find without the device: empty when it would have to register.
  Lease find(const void* address, std::size_t length, Access access) noexcept;

  /// The memory [address, +length) is being unmapped or replaced.  No registration that shares a byte with it serves a
  /// new request.  One that lies inside it becomes invalid at once; of others the part inside it is refused, and the
  /// rest stays good for the leases that exist.
  /// Returns the number of registrations that lost memory for the first time.
  /// Safe inside an unmap hook and in a signal handler: only links and flags change here, the device is told later by a
  /// get(), flush() or the end of a lease.  Cost: logarithmic, and for each registration that loses memory.  A handler
  /// that interrupts a thread inside the cache's lock returns 0; its event is applied when that lock is released.
  std::size_t invalidate(const void* address, std::size_t length) noexcept;

  /// Whether something that serves no more, but is in use, shares a byte with [address, +length).  Linear in those.
  [[nodiscard]] bool retired_in_use(const void* address, std::size_t length) const noexcept;

  /// Undoes what is invalid and not in use; not from within an event.
  void release_invalid() noexcept { release_retired(SIZE_MAX); }

  /// Undoes everything that is not in use.
  void flush() noexcept;

  // Checkpoints (docs/design/checkpoint.md): called by the owner of the cache; btl::Module calls its own.

  /// From now on get() answers `busy`, and nothing is kept: what is idle is undone here, the rest with its last lease.
  void quiesce() noexcept;
  /// Whether the device knows of nothing any more.  Errors: busy (not quiesced, or that many registrations are in use).
  Result<void> checkpoint() noexcept;
  /// Registers again; after a restart, too: what the device had forgotten was undone before.
  void resume() noexcept;

  /// The counts so far, and what is idle.  Holds the lock for one piece of the cache at a time.
  /// Where others use the cache meanwhile, `idle` is of no single moment.  Linear in the most registrations there ever
  /// were.
  [[nodiscard]] Statistics statistics() const noexcept;

  [[nodiscard]] const Config& config() const noexcept { return config_; }

 private:
  friend class Lease;

  /// What a registration is to cover.
  struct Request {
    std::uintptr_t begin;
    std::uintptr_t end;
    Access access;
  };
  /// The users of a registration, and its last use.
  struct Use {
    std::int64_t users = 0;
    std::uint64_t last = 0;
  };

  /// A registration in flight.
  struct Attempt {
    Registration* fresh = nullptr;
    std::uint64_t releases_seen = 0;  // before the device was asked
    std::uint64_t entries_seen = 0;   // in the index, ever, when there was nothing like it; UINT64_MAX: unknown
  };
  /// What a miss found out under the lock.
  struct Prospect {
    std::optional<Attempt> begun;      // if nothing has to be done before
    Registration* outgoing = nullptr;  // condemned; its end makes room
    std::uint64_t entries_seen = 0;    // in the index, ever
    bool more_retired = false;         // beyond the outgoing
    bool hints_wanted = false;
  };

  /// `mutex_` for all but events.  Those come from inside malloc, whose locks fork() takes after the handlers of
  /// fork.cpp: so a fork does not hold `mutex_`, but keeps all other threads out, for the child to find all members
  /// whole that no event changes. Each release applies the events that came from signal handlers meanwhile.
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
    const Cache* outer_ = nullptr;  // whose lock this thread held before: it is in a signal handler
    const For what_;
  };

  // events.cpp
  std::size_t invalidate_locked(memory::Range gone) noexcept;
  void lose_locked(Registration& registration, memory::Range gone, std::size_t& count) noexcept;

  // cache.cpp: the paths without a miss
  Error refuse(const Error& error) noexcept;
  Registration* follow_hint(const Request& request, LeaseTable* table) noexcept;
  bool try_borrow(LeaseTable& table, Registration& registration, const Request& request) const noexcept;
  [[nodiscard]] std::optional<Request> request_of(const void* address, std::size_t length,
                                                  Access access) const noexcept;
  [[gnu::noinline]] Result<Lease> get_slowly(const Request& request, LeaseTable* table) noexcept;
  Result<std::unique_ptr<PageHold>> make_hold(const Request& request) const noexcept;
  Lease hit_locked(const Request& request, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept;
  Lease borrow_locked(Registration& registration, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept;
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

  // miss.cpp: new registrations
  Result<Lease> register_new(const Request& request, Prospect& prospect, LeaseTable* table,
                             std::unique_ptr<PageHold>& hold) noexcept;
  void prospect_locked(const Request& request, Prospect& prospect) noexcept;
  Registration* outgoing_locked(const Request& request) noexcept;
  std::optional<Attempt> begin_after(const Request& request, const Prospect& prospect) noexcept;
  Result<Attempt> make_pending(const Request& range) noexcept;
  [[nodiscard]] std::optional<Attempt> make_pending_locked(const Request& range, std::uint64_t entries_seen) noexcept;
  Result<void> register_with_device(Attempt& attempt) noexcept;
  Result<void> grow_pool() noexcept;
  void grow_hints() noexcept;
  void give_up(const Attempt& refused) noexcept;
  void enter_index_locked(Registration& registration) noexcept;
  [[nodiscard]] bool within_limits_locked(std::size_t more_bytes) const noexcept;
  [[nodiscard]] bool fits_at_all(std::size_t bytes) const noexcept {
    return config_.size_limit.bytes == 0 || bytes <= config_.size_limit.bytes;
  }

  // undo.cpp: the end of registrations
  Result<void> make_room(std::uint64_t releases_seen, const Error& otherwise) noexcept;
  Registration* oldest_idle_locked() noexcept;
  Registration* evicted_locked() noexcept;
  void stop_serving_oldest_locked() noexcept;
  void withdraw_locked(Registration& registration) noexcept;
  static void serve_locked(Registration& registration) noexcept;
  void retire_locked(Registration& registration) noexcept;
  Registration* unused_locked(std::uintptr_t begin, std::uintptr_t end) const noexcept;
  [[nodiscard]] bool unused_for_good_locked(const Registration& retired) noexcept;
  Registration* unused_retired_locked(std::size_t most) noexcept;
  void condemn_locked(Registration& registration) noexcept;
  void release(Registration& condemned) noexcept;
  void released_locked(Registration& condemned) noexcept;
  void release_retired(std::size_t most) noexcept;
  void undo_if_unused(Registration& registration) noexcept;

  // fork.cpp
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  Device& device_;
  const Config config_;
  const bool counted_under_lock_;  // leases: where hits do not matter, or every one is a page hold
  const std::size_t granularity_;
  const std::uint64_t id_;  // of this cache, in the process, for ever
  HintTable hints_;

  alignas(kCacheLine) mutable std::mutex mutex_;
  mutable std::condition_variable released_;  // signalled after each deregistration, and after a fork
  bool forking_ = false;
  IntervalIndex index_;          // those that serve
  UseOrder order_;               // the same ones
  RegistrationList pending_;     // being registered by some thread right now
  RegistrationList retired_;     // serve no more; undone outside of an event when unused
  IntervalIndex retired_valid_;  // those of them that an event may still hit
  mutable EventBacklog backlog_;
  RegistrationPool pool_;
  std::shared_ptr<LeaseTable> tables_;   // of all threads that ever used this cache
  std::atomic<std::uint64_t> clock_{1};  // no LeaseTable's clock was beyond it when it was last advanced
  std::uint64_t next_generation_ = 2;
  std::uint64_t withdrawals_ = 0;  // times that a registration stopped serving
  std::uint64_t fenced_ = 0;       // up to this one, all leases taken before are seen
  std::uint32_t epoch_ = 0;        // forks seen
  bool quiesced_ = false;          // nothing is registered or served
  std::uint64_t entries_ = 0;      // into the index so far
  std::uint64_t releases_ = 0;     // deregistrations so far: tells a waiter that room may have appeared
  std::uint64_t releasing_ = 0;    // deregistrations in flight
  Statistics statistics_;          // hits without those that LeaseTables count; without what is idle
};

/// Bytes of the first piece of [address, +length) when pieces end at multiples of `max_chunk`, a power of two (0: one
/// piece).  Transfers that start anywhere in a buffer then share the registrations of its later pieces.
constexpr std::size_t first_chunk(std::uintptr_t address, std::size_t length, std::size_t max_chunk) noexcept {
  return max_chunk == 0 ? length : std::min(length, max_chunk - (address & (max_chunk - 1)));
}

}  // namespace opal::rcache
