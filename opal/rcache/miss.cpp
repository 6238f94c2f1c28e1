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

/// Registers the range of a request for which the index has no hit, and makes a lease of it.
Result<Lease> Cache::register_new(const Request& request, Lock& lock, LeaseTable* table,
                                  std::unique_ptr<PageHold>& hold) noexcept {
  const std::uint64_t entries_seen = entries_;
  release_retired(kLookedAt, lock);
  grow_hints(lock);
  constexpr int kAttempts = 16;  // other threads may unmap parts of it several times in a row
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    OPAL_TRY_ASSIGN(Registration* const fresh, make_pending(request, lock));
    const auto done = register_with_device(*fresh, lock);
    pending_.remove(*fresh);
    if (!done) {
      fresh->invalidate();
      recycle_locked(*fresh);
      return done.error();
    }
    if (!fresh->valid()) {
      release(*fresh, lock);
      continue;
    }
    // Another thread may have registered the range meanwhile: then use its registration.
    Registration* serves =
        entries_ == entries_seen ? nullptr : index_.find_containing(request.begin, request.end, request.access);
    if (serves == nullptr) {
      serves = fresh;
      fresh->once_ || quiesced_ ? retire_locked(*fresh) : enter_index_locked(*fresh);
    }
    if (table != nullptr && serves->state_ == Registration::State::indexed) hints_.remember(request.begin, *serves);
    Lease lease = lease_locked(*serves, table, hold);
    if (serves != fresh) release(*fresh, lock);
    return lease;
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
Result<Registration*> Cache::make_pending(const Request& range, Lock& lock) noexcept {
  const std::size_t length = range.end - range.begin;
  if (config_.size_limit.bytes != 0 && length > config_.size_limit.bytes) {
    return Error{Errc::limit_reached, 0, "rcache get(larger than this cache's size_limit)", length};
  }
  for (;;) {
    if (quiesced_) return Error{Errc::busy, 0, "rcache get(quiesced for a checkpoint)", range.begin};
    if (!within_limits_locked(length)) {
      // A bounded search first: make_room() looks at all retired registrations.
      Registration* victim = unused_retired_locked(kLookedAt);
      if (victim == nullptr) victim = evicted_locked();
      if (victim != nullptr) {
        release(*victim, lock);
        continue;
      }
      OPAL_TRY(make_room(releases_,
                         {Errc::limit_reached, 0,
                          "rcache get(beyond this cache's size_limit or count_limit, and nothing is idle)", length},
                         lock));
    } else if (pool_.empty()) {
      OPAL_TRY(grow_pool(lock));
    } else {
      break;
    }
  }
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
  return &fresh;
}

/// Registers `pending` with the device.  After each failure for lack of room it deregisters an idle registration and
/// tries again.
Result<void> Cache::register_with_device(Registration& pending, Lock& lock) noexcept {
  for (;;) {
    const std::uint64_t releases_seen = releases_;
    lock.unlock();
    const auto done = device_.register_memory(pending);
    lock.lock();
    if (done || !lacks_room(done.error())) return done;
    OPAL_TRY(make_room(releases_seen,
                       {Errc::limit_reached, done.error().os_errno,
                        "rcache get(the device has no room, nothing is idle)", pending.length()},
                       lock));
  }
}

Result<void> Cache::grow_pool(Lock& lock) noexcept {
  const std::size_t size = pool_.next_slab();
  lock.unlock();
  auto slab = RegistrationPool::make_slab(size);
  lock.lock();
  if (slab == nullptr) return Error{Errc::no_memory, 0, "rcache get(bookkeeping)", size * sizeof(Registration)};
  pool_.add(std::move(slab));
  return {};
}

/// Enlarges the hint table if it is too small.  If memory is short it stays as it is, which makes hits slower.
void Cache::grow_hints(Lock& lock) noexcept {
  const std::size_t wanted = counted_under_lock_ ? 0 : hints_.wanted(index_.size());
  if (wanted == 0) return;
  lock.unlock();
  auto lines = HintTable::make(wanted);
  lock.lock();
  if (lines != nullptr && hints_.wanted(index_.size()) == wanted) return hints_.take(std::move(lines));
  lock.unlock();
  lines.reset();  // another thread has enlarged the table meanwhile
  lock.lock();
}

bool Cache::within_limits_locked(std::size_t more_bytes) const noexcept {
  const Amount& now = statistics_.registered;
  const std::uint64_t most = config_.size_limit.bytes;
  return (config_.count_limit == 0 || now.count < config_.count_limit) &&
         (most == 0 || (now.bytes <= most && more_bytes <= most - now.bytes));
}

}  // namespace opal::rcache
