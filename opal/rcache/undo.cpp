// SPDX-License-Identifier: Apache-2.0
// How registrations end: evicted, retired, flushed.
#include <cassert>

#include "opal/rcache/cache.hpp"

namespace opal::rcache {

/// Undoes one registration without users, or sees that room appeared since `releases_seen`; else returns `otherwise`.
Result<void> Cache::make_room(std::uint64_t releases_seen, const Error& otherwise) noexcept {
  Registration* victim = nullptr;
  {
    Lock lock{*this};
    victim = unused_retired_locked(retired_.size());
    if (victim == nullptr) victim = evicted_locked();
    if (victim == nullptr) {
      if (releases_ != releases_seen) return {};
      if (releasing_ == 0) return otherwise;
      lock.wait([&] { return releases_ != releases_seen; });  // another thread is about to make room
      return {};
    }
    condemn_locked(*victim);
  }
  release(*victim);
  return {};
}

/// The same as oldest_idle_locked(), counted.
Registration* Cache::evicted_locked() noexcept {
  Registration* const victim = oldest_idle_locked();
  if (victim != nullptr) ++statistics_.evictions;
  return victim;
}

/// The idle registration that was used longest ago, withdrawn; null when none is idle.
Registration* Cache::oldest_idle_locked() noexcept {
  constexpr int kMostRounds = 100;  // other threads may take each one just when it is its turn
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

/// The next few victims stop serving together, so that one fence does for all of them.  They stay in the index: a
/// request that finds one there lets it serve again.
void Cache::stop_serving_oldest_locked() noexcept {
  constexpr int kTogether = 16;
  Registration* next = order_.front();
  if (next->serving_.load(std::memory_order_relaxed) == 0) return;
  for (int i = 0; i < kTogether && next != nullptr; ++i, next = RegistrationList::next(*next)) {
    stop_serving_locked(*next);
  }
}

/// Hits may take it again.
void Cache::serve_locked(Registration& registration) noexcept {
  registration.serving_.store(registration.generation(), std::memory_order_seq_cst);
}

/// From now on it serves no request that it does not serve already.
void Cache::withdraw_locked(Registration& registration) noexcept {
  assert(registration.state_ == Registration::State::indexed);
  stop_serving_locked(registration);
  index_.erase(registration);
  UseOrder::remove(registration);
}

/// Undoes it as soon as it is unused; it was withdrawn.
void Cache::retire_locked(Registration& registration) noexcept {
  registration.state_ = Registration::State::retired;
  retired_.push_back(registration);
  if (registration.valid()) retired_valid_.insert(registration);
}

/// An unused one that serves some of [begin, end).
Registration* Cache::unused_locked(std::uintptr_t begin, std::uintptr_t end) const noexcept {
  Registration* found = nullptr;
  index_.any_overlapping(begin, end, [&](Registration& registration) {
    Use use;
    if (idle_locked(registration, use)) found = &registration;
    return found != nullptr;
  });
  return found;
}

/// Unused for good: it serves no more.
bool Cache::unused_for_good_locked(const Registration& retired) noexcept {
  if (use_of_locked(retired).users != 0) return false;
  know_all_users_locked(retired);
  return use_of_locked(retired).users == 0;
}

/// An unused one among at most `most` of the retired.
Registration* Cache::unused_retired_locked(std::size_t most) noexcept {
  for (most = std::min(most, retired_.size()); most > 0; --most) {
    Registration* const first = retired_.front();
    if (unused_for_good_locked(*first)) return first;
    retired_.remove(*first);
    retired_.push_back(*first);
  }
  return nullptr;
}

/// Nothing points to it any more: pass it to release() without the lock.
void Cache::condemn_locked(Registration& registration) noexcept {
  if (registration.state_ == Registration::State::retired) {
    retired_.remove(registration);
    if (registration.valid()) retired_valid_.erase(registration);
  }
  registration.state_ = Registration::State::condemned;
  registration.invalidate();
  ++releasing_;
}

void Cache::release(Registration& condemned) noexcept {
  device_.deregister_memory(condemned);
  const Lock lock{*this};
  released_locked(condemned);
}

void Cache::released_locked(Registration& condemned) noexcept {
  --releasing_;
  ++releases_;
  --statistics_.registered.count;
  statistics_.registered.bytes -= condemned.length();
  pool_.give_back(condemned);
  released_.notify_all();
}

/// Undoes retired registrations without users; looks at no more than `most` in vain.
void Cache::release_retired(std::size_t most) noexcept {
  Lock lock{*this};
  while (Registration* const gone = unused_retired_locked(most)) {
    condemn_locked(*gone);
    lock.unlock();
    device_.deregister_memory(*gone);
    lock.lock();
    released_locked(*gone);
  }
}

/// The end of a lease undoes a retired registration, if it was the last one.  Two that end at the same time may both
/// miss that: then the next registration of anything does it.
void Cache::undo_if_unused(Registration& registration) noexcept {
  {
    const Lock lock{*this};
    if (registration.epoch_ != epoch_ || registration.state_ != Registration::State::retired) return;
    if (!unused_for_good_locked(registration)) return;
    condemn_locked(registration);
  }
  release(registration);
}

void Cache::flush() noexcept {
  for (;;) {
    release_retired(SIZE_MAX);
    Registration* gone = nullptr;
    {
      const Lock lock{*this};
      gone = oldest_idle_locked();
      if (gone == nullptr) return;
      condemn_locked(*gone);
    }
    release(*gone);
  }
}

void Cache::quiesce() noexcept {
  {
    const Lock lock{*this};
    quiesced_ = true;
    while (Registration* const each = index_.any()) {
      withdraw_locked(*each);
      retire_locked(*each);
    }
  }
  release_retired(SIZE_MAX);
}

Result<void> Cache::checkpoint() noexcept {
  release_retired(SIZE_MAX);
  const Lock lock{*this};
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
