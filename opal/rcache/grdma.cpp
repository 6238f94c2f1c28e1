// SPDX-License-Identifier: Apache-2.0
// Lock rule: `mutex_` guards links, counters and flags only.  Device calls, allocation and release of memory happen
// without it, because each of them may end in invalidate() on this very thread.
#include "opal/rcache/grdma.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::rcache {
namespace {

constexpr Errc kMayFitLater[] = {Errc::no_memory, Errc::no_space, Errc::limit_reached};

bool lacks_room(const Error& error) noexcept {
  return std::find(std::begin(kMayFitLater), std::end(kMayFitLater), error.code) != std::end(kMayFitLater);
}

std::size_t machine_page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Grdma::Grdma(Device& device, const GrdmaConfig& config, std::size_t granularity) noexcept
    : device_(device), config_(config), granularity_(granularity != 0 ? granularity : machine_page_size()) {}

Grdma::~Grdma() {
  flush();
  std::size_t in_use = 0;
  for (;; ++in_use) {
    Owned gone;
    {
      const std::lock_guard lock{mutex_};
      if (Registration* const orphan = orphans_.pop_front(); orphan != nullptr) {
        gone = condemn_locked(*orphan);
      } else if (Registration* const borrowed = index_.any(); borrowed != nullptr) {
        index_.erase(*borrowed);
        gone = condemn_locked(*borrowed);
      } else {
        break;
      }
    }
    release(std::move(gone));
  }
  if (in_use > 0) log::error("rcache", "a cache was destroyed while {} of its registrations were in use", in_use);
}

Result<Grdma::Request> Grdma::rounded(const void* address, std::size_t length, Access access) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  constexpr auto kMax = std::numeric_limits<std::uintptr_t>::max();
  if (length == 0 || length > kMax - begin || kMax - begin - length < granularity_) {
    return Error{Errc::invalid_argument, 0, "rcache get(empty or wrapping range)", length};
  }
  return Request{begin & ~(granularity_ - 1), align_up(begin + length, granularity_), access};
}

Result<Registration*> Grdma::get(const void* address, std::size_t length, Access access) noexcept {
  const auto request = rounded(address, length, access);
  {
    const std::lock_guard lock{mutex_};
    if (!request) {
      ++statistics_.failures;
      return request.error();
    }
    if (Registration* const hit = index_.find_containing(request->begin, request->end, access); hit != nullptr) {
      ++statistics_.hits;
      borrow_locked(*hit);
      return hit;
    }
    ++statistics_.misses;
  }
  auto registration = register_new(*request);
  if (!registration) {
    const std::lock_guard lock{mutex_};
    ++statistics_.failures;
  }
  return registration;
}

/// The slow half of get(): nothing valid serves the request.
Result<Registration*> Grdma::register_new(const Request& request) noexcept {
  Request united = request;
  bool lacks_rights = false;
  {
    const std::lock_guard lock{mutex_};
    if (Registration* const weak = index_.find_containing(request.begin, request.end, 0); weak != nullptr) {
      lacks_rights = true;
      united = {weak->begin(), weak->end(), request.access | weak->access()};
      if (weak->users_ == 0) {  // of no use once the new one is there
        take_out_locked(*weak);
        dead_.push_back(*weak);
      }
    }
  }
  release_dead();
  if (lacks_rights) {
    // All of the old range may not bear the new rights (part of it may be read-only by now); what was asked for may.
    if (auto registration = register_exactly(united)) return registration;
  }
  return register_exactly(request);
}

Result<Registration*> Grdma::register_exactly(const Request& request) noexcept {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    OPAL_TRY_ASSIGN(Owned fresh, make_pending(request));
    if (const auto done = register_with_device(*fresh); !done) {
      give_up(std::move(fresh));
      return done.error();
    }
    Registration* result = nullptr;
    {
      const std::lock_guard lock{mutex_};
      pending_.remove(*fresh);
      if (fresh->valid()) {
        // Another thread may have registered the same meanwhile: then one of the two is enough.
        result = index_.find_containing(request.begin, request.end, request.access);
        if (result == nullptr) {
          index_.insert(*fresh);
          fresh->users_ = 1;
          return fresh.release();
        }
        borrow_locked(*result);
      }
      fresh = condemn_locked(*fresh.release());
    }
    release(std::move(fresh));
    if (result != nullptr) return result;
  }
  return Error{Errc::invalid_argument, 0, "rcache get(the memory keeps being unmapped while it is registered)",
               request.begin};
}

/// A registration that counts as registered and hears of invalidations, but is not known to the device yet.
Result<Grdma::Owned> Grdma::make_pending(const Request& request) noexcept {
  const std::size_t length = request.end - request.begin;
  if (config_.size_limit.bytes != 0 && length > config_.size_limit.bytes) {
    return Error{Errc::limit_reached, 0, "rcache get(larger than rcache_grdma_size_limit)", length};
  }
  const auto generation = next_generation_.fetch_add(2, std::memory_order_relaxed);
  Owned fresh{new (std::nothrow) Registration(request.begin, length, request.access, generation)};
  if (!fresh) return Error{Errc::no_memory, 0, "rcache get(bookkeeping)", sizeof(Registration)};
  for (;;) {
    std::uint64_t releases_seen = 0;
    {
      const std::lock_guard lock{mutex_};
      if (within_limits_locked(length)) {
        ++statistics_.registered.count;
        statistics_.registered.bytes += length;
        pending_.push_back(*fresh);
        return fresh;
      }
      releases_seen = releases_;
    }
    OPAL_TRY(make_room(releases_seen, {Errc::limit_reached, 0,
                                       "rcache get(rcache_grdma_size_limit or count_limit, nothing is idle)", length}));
  }
}

Result<void> Grdma::register_with_device(Registration& registration) noexcept {
  for (;;) {
    std::uint64_t releases_seen = 0;
    {
      const std::lock_guard lock{mutex_};
      releases_seen = releases_;
    }
    const std::uint64_t start = now_ns();
    const auto done = device_.register_memory(registration);
    const std::uint64_t elapsed = now_ns() - start;
    {
      const std::lock_guard lock{mutex_};
      statistics_.register_ns += elapsed;
    }
    if (done || !lacks_room(done.error())) return done;
    OPAL_TRY(make_room(releases_seen, {Errc::limit_reached, done.error().os_errno,
                                       "rcache get(the device has no room, nothing is idle)", registration.length()}));
  }
}

/// Undoes one registration without users, or sees that room appeared since `releases_seen`; else returns `otherwise`.
Result<void> Grdma::make_room(std::uint64_t releases_seen, const Error& otherwise) noexcept {
  Owned victim;
  {
    std::unique_lock lock{mutex_};
    if (Registration* const dead = dead_.pop_front(); dead != nullptr) {
      victim = condemn_locked(*dead);
    } else if (Registration* const oldest = idle_.front(); oldest != nullptr) {
      ++statistics_.evictions;
      take_out_locked(*oldest);
      victim = condemn_locked(*oldest);
    } else if (releases_ != releases_seen) {
      return {};
    } else if (releasing_ > 0) {  // another thread is on the way to making room
      released_.wait(lock, [&] { return releases_ != releases_seen; });
      return {};
    } else {
      return otherwise;
    }
  }
  release(std::move(victim));
  return {};
}

void Grdma::put(Registration* registration) noexcept {
  Owned gone;
  {
    const std::lock_guard lock{mutex_};
    assert(registration->users_ > 0 && "put() without get()");
    if (--registration->users_ > 0) return;
    if (!registration->valid()) {
      orphans_.remove(*registration);
    } else if (config_.leave_pinned) {
      idle_.push_back(*registration);
      ++statistics_.idle.count;
      statistics_.idle.bytes += registration->length();
      return;
    } else {
      index_.erase(*registration);
    }
    gone = condemn_locked(*registration);
  }
  release(std::move(gone));
}

std::size_t Grdma::invalidate(const void* address, std::size_t length) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  constexpr auto kMax = std::numeric_limits<std::uintptr_t>::max();
  if (length == 0) return 0;
  const std::uintptr_t end = length > kMax - begin ? kMax : begin + length;
  std::size_t count = 0;
  const std::lock_guard lock{mutex_};
  while (Registration* const hit = index_.find_overlapping(begin, end)) {
    if (hit->users_ == 0) {
      take_out_locked(*hit);
      dead_.push_back(*hit);
    } else {
      index_.erase(*hit);
      orphans_.push_back(*hit);
    }
    hit->invalidate();
    device_.invalidated(*hit);
    ++count;
  }
  for (Registration* r = pending_.front(); r != nullptr; r = RegistrationList::next(*r)) {
    if (r->begin() < end && begin < r->end() && r->valid()) {
      r->invalidate();  // the device does not know it yet: whoever registers it starts again
      ++count;
    }
  }
  statistics_.invalidations += count;
  return count;
}

void Grdma::flush() noexcept {
  for (;;) {
    release_dead();
    Owned gone;
    {
      const std::lock_guard lock{mutex_};
      Registration* const oldest = idle_.front();
      if (oldest == nullptr) return;
      take_out_locked(*oldest);
      gone = condemn_locked(*oldest);
    }
    release(std::move(gone));
  }
}

Statistics Grdma::statistics() const noexcept {
  const std::lock_guard lock{mutex_};
  return statistics_;
}

bool Grdma::within_limits_locked(std::size_t more_bytes) const noexcept {
  const Amount& now = statistics_.registered;
  const std::uint64_t most = config_.size_limit.bytes;
  return (config_.count_limit == 0 || now.count < config_.count_limit) &&
         (most == 0 || (now.bytes <= most && more_bytes <= most - now.bytes));
}

/// Adds a user to a registration of the index.
void Grdma::borrow_locked(Registration& registration) noexcept {
  if (registration.users_++ > 0) return;
  idle_.remove(registration);
  --statistics_.idle.count;
  statistics_.idle.bytes -= registration.length();
}

/// Takes an idle registration out of the index and the idle list.
void Grdma::take_out_locked(Registration& idle) noexcept {
  index_.erase(idle);
  idle_.remove(idle);
  --statistics_.idle.count;
  statistics_.idle.bytes -= idle.length();
}

/// Ownership of a registration that nothing points to any more; pass it to release() without the lock.
Grdma::Owned Grdma::condemn_locked(Registration& registration) noexcept {
  registration.invalidate();
  ++releasing_;
  return Owned{&registration};
}

void Grdma::release(Owned condemned) noexcept {
  device_.deregister_memory(*condemned);
  const std::lock_guard lock{mutex_};
  --releasing_;
  ++releases_;
  --statistics_.registered.count;
  statistics_.registered.bytes -= condemned->length();
  released_.notify_all();
}  // `condemned` is freed after the lock: parameters outlive locals

/// Forgets a pending registration that the device refused.
void Grdma::give_up(Owned pending) noexcept {
  const std::lock_guard lock{mutex_};
  pending_.remove(*pending);
  ++releases_;
  --statistics_.registered.count;
  statistics_.registered.bytes -= pending->length();
  released_.notify_all();
}

void Grdma::release_dead() noexcept {
  for (;;) {
    Owned gone;
    {
      const std::lock_guard lock{mutex_};
      Registration* const dead = dead_.pop_front();
      if (dead == nullptr) return;
      gone = condemn_locked(*dead);
    }
    release(std::move(gone));
  }
}

}  // namespace opal::rcache
