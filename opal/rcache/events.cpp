// SPDX-License-Identifier: Apache-2.0
// Invalidation of registrations by unmapping, and the lock of the cache, which an event's own thread may hold.
#include <limits>

#include "opal/rcache/cache.hpp"

namespace opal::rcache {
namespace {

/// The cache whose lock this thread holds or waits for.  An event in a signal handler then must not lock it.
// Initial-exec: the first use of a dynamic TLS variable calls malloc.
[[gnu::tls_model("initial-exec")]] constinit thread_local const Cache* locked_by_this_thread = nullptr;

}  // namespace

void Cache::Lock::lock() noexcept {
  outer_ = std::exchange(locked_by_this_thread, &cache_);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  held_.lock();
  if (cache_.forking_ && what_ == For::use) [[unlikely]]
    wait([] { return true; });
}

void Cache::Lock::unlock() noexcept {
  for (;;) {
    // The cast is valid, because no Cache object is const; only const member functions see it as const.
    auto& cache = const_cast<Cache&>(cache_);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    if (cache.backlog_.any()) [[unlikely]]
      cache.apply_backlog_locked();
    held_.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    locked_by_this_thread = outer_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!cache_.backlog_.any()) [[likely]]
      return;
    outer_ = std::exchange(locked_by_this_thread, &cache_);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    held_.lock();
  }
}

void Cache::apply_backlog_locked() noexcept {
  const bool some_lost = backlog_.take([&](memory::Range gone) { (void)invalidate_locked(gone); });
  if (some_lost) (void)invalidate_locked({0, std::numeric_limits<std::uintptr_t>::max()});
}

std::size_t Cache::invalidate(const void* address, std::size_t length) noexcept {
  if (length == 0) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  constexpr auto kMax = std::numeric_limits<std::uintptr_t>::max();
  const bool wraps = length > kMax - begin || kMax - begin - length < granularity_;
  const memory::Range gone{begin & ~(granularity_ - 1), wraps ? kMax : align_up(begin + length, granularity_)};
  if (locked_by_this_thread == this) [[unlikely]] {
    backlog_.add(gone);
    return 0;
  }
  const Lock lock{*this, Lock::For::event};
  return invalidate_locked(gone);
}

std::size_t Cache::invalidate_locked(memory::Range gone) noexcept {
  std::size_t count = 0;
  const auto whole = [&](const Registration& r) { return gone.contains({r.begin(), r.end()}); };
  const auto any = [](const Registration& /*r*/) { return true; };
  while (Registration* const hit = index_.find_overlapping(gone.begin, gone.end, any)) {
    withdraw_locked(*hit);
    if (whole(*hit)) lose_locked(*hit, gone, count);
    retire_locked(*hit);
  }
  // Registrations that lose only a part stay in retired_valid_: one pass reports the part to the device.  Those that
  // lose all memory leave retired_valid_, one at a time, because a visit must not change the index.
  retired_valid_.find_overlapping(gone.begin, gone.end, [&](Registration& r) {
    if (!whole(r)) lose_locked(r, gone, count);
    return false;
  });
  while (Registration* const lost = retired_valid_.find_overlapping(gone.begin, gone.end, whole)) {
    retired_valid_.erase(*lost);
    lose_locked(*lost, gone, count);
  }
  for (Registration* r = pending_.front(); r != nullptr; r = RegistrationList::next(*r)) {
    if (!r->overlaps(gone.begin, gone.end) || !r->valid()) continue;
    r->invalidate();  // register_new() finds it invalid and registers the memory again
    ++count;
  }
  statistics_.invalidations += count;
  return count;
}

/// `gone` contains all or a part of the registration: invalidates that and reports it to the device.
void Cache::lose_locked(Registration& registration, memory::Range gone, std::size_t& count) noexcept {
  const bool first = !std::exchange(registration.part_gone_, true);
  count += first ? 1 : 0;
  if (gone.contains({registration.begin(), registration.end()})) {
    registration.invalidate();
    device_.invalidated(registration);
  } else {
    device_.invalidated_part(registration,
                             {std::max(gone.begin, registration.begin()), std::min(gone.end, registration.end())});
  }
}

}  // namespace opal::rcache
