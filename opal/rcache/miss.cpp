// SPDX-License-Identifier: Apache-2.0
// Misses: no registration serves the request.
#include <algorithm>
#include <iterator>
#include <utility>

#include "opal/memory/events/events.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::rcache {
namespace {

constexpr std::size_t kLookedAt = 64;  // most retired registrations that one step tests

constexpr Errc kMayFitLater[] = {Errc::no_memory, Errc::no_space, Errc::limit_reached};

bool lacks_room(const Error& error) noexcept {
  return std::find(std::begin(kMayFitLater), std::end(kMayFitLater), error.code) != std::end(kMayFitLater);
}

}  // namespace

void Cache::plan_miss_locked(const Request& request, MissPlan& plan) noexcept {
  plan.hints_wanted = !counted_under_lock_ && hints_.wanted(index_.size()) != 0;
  plan.entries_seen = entries_;
  plan.victim = choose_victim_locked(request);
  if (plan.victim != nullptr) {
    plan.more_retired = !retired_.empty();
  } else {
    plan.begun = make_pending_locked(request, plan.entries_seen);
  }
}

/// The registration to deregister before the request is registered, condemned: a retired one without leases, else an
/// idle one if a limit requires it; null if none.
Registration* Cache::choose_victim_locked(const Request& request) noexcept {
  const std::size_t length = request.end - request.begin;
  Registration* victim = unused_retired_locked(kLookedAt);
  if (victim == nullptr && !quiesced_ && fits_at_all(length) && !within_limits_locked(length)) {
    victim = evicted_locked();
  }
  if (victim != nullptr) condemn_locked(*victim);
  return victim;
}

/// Deregisters plan.victim, then makes a pending registration for the request if nothing else has to be done.
std::optional<Cache::Attempt> Cache::deregister_and_begin(const Request& request, const MissPlan& plan) noexcept {
  device_.deregister_memory(*plan.victim);
  const Lock lock{*this};
  released_locked(*plan.victim);
  return make_pending_locked(request, plan.entries_seen);
}

/// Registers the range of the request, and makes a lease of it.
Result<Lease> Cache::register_new(const Request& request, MissPlan& plan, LeaseTable* table,
                                  std::unique_ptr<PageHold>& hold) noexcept {
  std::optional<Attempt> begun = plan.begun;
  if (plan.victim != nullptr) begun = deregister_and_begin(request, plan);
  if (plan.more_retired) release_retired(kLookedAt);
  if (plan.hints_wanted) grow_hints();
  constexpr int kAttempts = 16;  // other threads may unmap parts of it several times in a row
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!begun) {
      OPAL_TRY_ASSIGN(begun, make_pending(request));
    }
    Attempt under_way = *std::exchange(begun, std::nullopt);
    if (const auto done = register_with_device(under_way); !done) {
      give_up(under_way);
      return done.error();
    }
    Registration* fresh = under_way.fresh;
    Lease lease;
    {
      const Lock lock{*this};
      pending_.remove(*fresh);
      if (fresh->valid()) {
        // Another thread may have registered the range meanwhile: then use its registration.
        Registration* serves = entries_ == under_way.entries_seen
                                   ? nullptr
                                   : index_.find_containing(request.begin, request.end, request.access);
        if (serves == nullptr) {
          serves = std::exchange(fresh, nullptr);
          serves->once_ || quiesced_ ? retire_locked(*serves) : enter_index_locked(*serves);
        }
        if (table != nullptr && serves->state_ == Registration::State::indexed) hints_.remember(request.begin, *serves);
        lease = lease_locked(*serves, table, hold);
      }
      if (fresh != nullptr) condemn_locked(*fresh);
    }
    if (fresh != nullptr) release(*fresh);
    if (lease) return lease;
  }
  return Error{Errc::invalid_argument, 0, "rcache get(the memory keeps being unmapped while it is registered)",
               request.begin};
}

void Cache::enter_index_locked(Registration& registration) noexcept {
  ++entries_;
  registration.state_ = Registration::State::indexed;
  registration.last_use_.store(0, std::memory_order_relaxed);
  index_.insert(registration);
  order_.add(registration);
  serve_locked(registration);
}

/// Makes a pending registration, which counts as registered and receives invalidations.  The caller registers it with
/// the device.  It waits for room or makes room if a limit is reached.
Result<Cache::Attempt> Cache::make_pending(const Request& range) noexcept {
  const std::size_t length = range.end - range.begin;
  if (!fits_at_all(length)) {
    return Error{Errc::limit_reached, 0, "rcache get(larger than this cache's size_limit)", length};
  }
  for (;;) {
    std::uint64_t releases_seen = 0;
    bool no_object = false;
    {
      const Lock lock{*this};
      if (quiesced_) return Error{Errc::busy, 0, "rcache get(quiesced for a checkpoint)", range.begin};
      if (const auto begun = make_pending_locked(range, UINT64_MAX)) return *begun;
      no_object = pool_.empty();
      releases_seen = releases_;
    }
    if (no_object) {
      OPAL_TRY(grow_pool());
      continue;
    }
    OPAL_TRY(make_room(releases_seen,
                       {Errc::limit_reached, 0,
                        "rcache get(beyond this cache's size_limit or count_limit, and nothing is idle)", length}));
  }
}

/// As make_pending(); nullopt if the limits leave no room, the pool is empty, or the cache is quiesced.
std::optional<Cache::Attempt> Cache::make_pending_locked(const Request& range, std::uint64_t entries_seen) noexcept {
  const std::size_t length = range.end - range.begin;
  if (quiesced_ || pool_.empty() || !within_limits_locked(length)) return std::nullopt;
  Registration& fresh = pool_.take();
  fresh.assign(range.begin, length, range.access, next_generation_);
  next_generation_ += 2;
  fresh.epoch_ = epoch_;
  fresh.state_ = Registration::State::pending;
  // A peer may request memory that a thread is unmapping.  A registration between the event and the system call would
  // pin the old pages, so it must not serve a later request.
  fresh.once_ = memory::being_released({range.begin, range.end});
  fresh.part_gone_ = false;
  fresh.withdrawn_ = 0;
  pending_.push_back(fresh);
  ++statistics_.registered.count;
  statistics_.registered.bytes += length;
  return Attempt{.fresh = &fresh, .releases_seen = releases_, .entries_seen = entries_seen};
}

/// Registers attempt.fresh with the device.  After each failure for lack of room it deregisters an idle registration
/// and tries again.
Result<void> Cache::register_with_device(Attempt& attempt) noexcept {
  for (;;) {
    const auto done = device_.register_memory(*attempt.fresh);
    if (done || !lacks_room(done.error())) return done;
    OPAL_TRY(make_room(attempt.releases_seen,
                       {Errc::limit_reached, done.error().os_errno,
                        "rcache get(the device has no room, nothing is idle)", attempt.fresh->length()}));
    const Lock lock{*this};
    attempt.releases_seen = releases_;
  }
}

Result<void> Cache::grow_pool() noexcept {
  std::size_t size = 0;
  {
    const Lock lock{*this};
    if (!pool_.empty()) return {};
    size = pool_.next_slab();
  }
  auto slab = RegistrationPool::make_slab(size);
  if (slab == nullptr) return Error{Errc::no_memory, 0, "rcache get(bookkeeping)", size * sizeof(Registration)};
  const Lock lock{*this};
  pool_.add(std::move(slab));
  return {};
}

/// Enlarges the hint table.  If memory is short it stays as it is, which makes hits slower.
void Cache::grow_hints() noexcept {
  std::size_t wanted = 0;
  {
    const Lock lock{*this};
    wanted = hints_.wanted(index_.size());
  }
  if (wanted == 0) return;
  auto lines = HintTable::make(wanted);
  if (lines == nullptr) return;
  const Lock lock{*this};
  if (hints_.wanted(index_.size()) == wanted) hints_.take(std::move(lines));
}

/// Returns a pending registration, which the device refused, to the pool.
void Cache::give_up(const Attempt& refused) noexcept {
  Registration& pending = *refused.fresh;
  const Lock lock{*this};
  pending_.remove(pending);
  pending.invalidate();
  ++releases_;
  --statistics_.registered.count;
  statistics_.registered.bytes -= pending.length();
  pool_.give_back(pending);
  released_.notify_all();
}

bool Cache::within_limits_locked(std::size_t more_bytes) const noexcept {
  const Amount& now = statistics_.registered;
  const std::uint64_t most = config_.size_limit.bytes;
  return (config_.count_limit == 0 || now.count < config_.count_limit) &&
         (most == 0 || (now.bytes <= most && more_bytes <= most - now.bytes));
}

}  // namespace opal::rcache
