// SPDX-License-Identifier: Apache-2.0
// The ends of registrations: eviction, retirement, flush, checkpoint.
#include <cassert>

#include "opal/rcache/cache.hpp"

namespace opal::rcache {

/// Deregisters one registration without leases.  If there is none, waits until releases_ differs from `releases_seen`.
/// Returns `otherwise` if no deregistration is in flight either.
Result<void> Cache::make_room(std::uint64_t releases_seen, const Error& otherwise, Lock& lock) noexcept {
  Registration* victim = unused_retired_locked(retired_.size());
  if (victim == nullptr) victim = evicted_locked();
  if (victim != nullptr) {
    release(*victim, lock);
  } else if (releases_ == releases_seen) {
    if (releasing_ == 0) return otherwise;
    lock.wait([&] { return releases_ != releases_seen; });  // another thread is deregistering
  }
  return {};
}

/// As oldest_idle_locked(), and counts an eviction.
Registration* Cache::evicted_locked() noexcept {
  Registration* const victim = oldest_idle_locked();
  if (victim != nullptr) ++statistics_.evictions;
  return victim;
}

/// Withdraws and returns the least recently used idle registration; null if none is idle.
Registration* Cache::oldest_idle_locked() noexcept {
  constexpr int kMostRounds = 100;  // a bound, because hits of other threads may take each candidate
  for (int round = 0; round < kMostRounds; ++round) {
    while (Registration* const oldest = order_.front()) {
      Use use;
      if (!idle_locked(*oldest, use) || !UseOrder::ranked_right(*oldest, use.last)) {
        order_.postpone_front();
        continue;
      }
      stop_serving_oldest_locked();
      know_all_users_locked(*oldest);
      if (idle_locked(*oldest, use)) {
        withdraw_locked(*oldest);
        return oldest;
      }
      serve_locked(*oldest);
      order_.postpone_front();
    }
    advance_clock_locked();
    const bool some = order_.rank([this](const Registration& registration, std::uint64_t& last_use) {
      Use use;
      const bool idle = idle_locked(registration, use);
      last_use = use.last;
      return idle;
    });
    if (!some) break;
  }
  return nullptr;
}

/// The next 16 victims stop serving hits together, so that one fence suffices for all.  They stay in the index:
/// lease_locked() makes one serve again if a request finds it there.
void Cache::stop_serving_oldest_locked() noexcept {
  constexpr int kTogether = 16;
  Registration* next = order_.front();
  if (next->serving_.load(std::memory_order_relaxed) == 0) return;
  for (int i = 0; i < kTogether && next != nullptr; ++i, next = RegistrationList::next(*next)) {
    stop_serving_locked(*next);
  }
}

/// From now on hits without the lock may take it.
void Cache::serve_locked(Registration& registration) noexcept {
  registration.serving_.store(registration.generation(), std::memory_order_seq_cst);
}

/// Removes it from the index: from now on it serves no new request.  The caller retires or releases it.
void Cache::withdraw_locked(Registration& registration) noexcept {
  assert(registration.state_ == Registration::State::indexed);
  stop_serving_locked(registration);
  index_.erase(registration);
  UseOrder::remove(registration);
}

/// Adds it to the registrations that are deregistered once they have no leases.
/// Requires: it is in neither the index nor a list.
void Cache::retire_locked(Registration& registration) noexcept {
  registration.state_ = Registration::State::retired;
  retired_.push_back(registration);
  if (registration.valid()) retired_valid_.insert(registration);
}

/// An idle registration of the index that overlaps [begin, end); null if there is none.
Registration* Cache::unused_locked(std::uintptr_t begin, std::uintptr_t end) const noexcept {
  return index_.find_overlapping(begin, end, [&](const Registration& registration) {
    Use use;
    return idle_locked(registration, use);
  });
}

/// True if a retired registration has no leases; it gets none any more.
bool Cache::unused_for_good_locked(const Registration& retired) noexcept {
  if (use_of_locked(retired).users != 0) return false;
  know_all_users_locked(retired);
  return use_of_locked(retired).users == 0;
}

/// A retired registration without leases; null if none of the first `most` is one.  Moves the tested ones to the end.
Registration* Cache::unused_retired_locked(std::size_t most) noexcept {
  for (most = std::min(most, retired_.size()); most > 0; --most) {
    Registration* const first = retired_.front();
    if (unused_for_good_locked(*first)) return first;
    retired_.remove(*first);
    retired_.push_back(*first);
  }
  return nullptr;
}

/// Deregisters it.  Requires: it is not in the index or `pending_`.
void Cache::release(Registration& registration, Lock& lock) noexcept {
  if (registration.state_ == Registration::State::retired) {
    retired_.remove(registration);
    if (registration.valid()) retired_valid_.erase(registration);
  }
  registration.state_ = Registration::State::condemned;
  registration.invalidate();
  ++releasing_;
  lock.unlock();
  device_.deregister_memory(registration);
  lock.lock();
  --releasing_;
  recycle_locked(registration);
}

/// The device does not have the memory registered any more, or has refused it.
void Cache::recycle_locked(Registration& gone) noexcept {
  ++releases_;
  --statistics_.registered.count;
  statistics_.registered.bytes -= gone.length();
  pool_.give_back(gone);
  released_.notify_all();
}

/// Deregisters retired registrations without leases, until `most` tests in a row find none.
void Cache::release_retired(std::size_t most, Lock& lock) noexcept {
  while (Registration* const gone = unused_retired_locked(most)) release(*gone, lock);
}

/// After the end of a lease: deregisters a retired registration that has no more leases.  If two leases end at the same
/// time, each may still count the other; then the next miss deregisters it.
void Cache::undo_if_unused(Registration& registration, Lock& lock) noexcept {
  if (registration.epoch_ != epoch_ || registration.state_ != Registration::State::retired) return;
  if (unused_for_good_locked(registration)) release(registration, lock);
}

void Cache::undo_if_unused(Registration& registration) noexcept {
  Lock lock{*this};
  undo_if_unused(registration, lock);
}

void Cache::flush() noexcept {
  Lock lock{*this};
  for (;;) {
    release_retired(SIZE_MAX, lock);
    Registration* const gone = oldest_idle_locked();
    if (gone == nullptr) return;
    release(*gone, lock);
  }
}

void Cache::quiesce() noexcept {
  Lock lock{*this};
  quiesced_ = true;
  while (Registration* const each = index_.any()) {
    withdraw_locked(*each);
    retire_locked(*each);
  }
  release_retired(SIZE_MAX, lock);
}

Result<void> Cache::checkpoint() noexcept {
  Lock lock{*this};
  release_retired(SIZE_MAX, lock);
  const std::uint64_t left = statistics_.registered.count;
  if (quiesced_ && left == 0) return {};
  return Error{Errc::busy, 0,
               quiesced_ ? "checkpoint: cached registrations are in use" : "checkpoint: the cache is not quiesced",
               left};
}

void Cache::resume() noexcept {
  const Lock lock{*this};
  quiesced_ = false;
}

}  // namespace opal::rcache
