// SPDX-License-Identifier: Apache-2.0
// Hits and ends of leases.  Lock rule of the class: `mutex_` guards links, counters and flags only.  Registration,
// deregistration and heap calls happen without it, because each may lead to invalidate() on the same thread.
#include "opal/rcache/cache.hpp"

#include <limits>
#include <new>
#include <utility>

#include "opal/core/log.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::rcache {
namespace {

std::atomic<std::uint64_t> next_cache_id{1};

}  // namespace

Cache::Cache(Device& device, const Config& config, std::size_t granularity)
    : device_(device),
      config_(config),
      counted_under_lock_(!config.leave_pinned || config.overlap == Overlap::page_refcount),
      granularity_(granularity != 0 ? granularity : base_page_size()),
      id_(next_cache_id.fetch_add(1, std::memory_order_relaxed)) {
  follow_forks();
}

Cache::~Cache() {
  unfollow_forks();
  flush();
  std::size_t in_use = 0;
  for (Lock lock{*this};; ++in_use) {
    Registration* gone = retired_.front();
    if (gone == nullptr && (gone = index_.any()) != nullptr) withdraw_locked(*gone);
    if (gone == nullptr) break;
    release(*gone, lock);
  }
  if (in_use > 0) log::error("rcache", "a cache was destroyed while {} of its registrations were in use", in_use);
  while (tables_ != nullptr) {
    tables_->cache_gone = true;
    tables_ = std::exchange(tables_->next, nullptr);
  }
}

/// Takes a lease of `registration`, which is the result of a hint, if it serves the request.  False: it does not, or
/// has stopped meanwhile.
[[gnu::always_inline]] inline bool Cache::try_lease(LeaseTable& table, Registration& registration,
                                                    const Request& request) const noexcept {
  const std::uint64_t serving = registration.serving_.load(std::memory_order_acquire);
  if (serving == 0 || !registration.contains(request.begin, request.end) || !registration.allows(request.access)) {
    return false;
  }
  table.add(registration);
  if (registration.serving_.load(std::memory_order_seq_cst) == serving) [[likely]]
    return true;
  table.subtract(registration, 0);
  return false;
}

/// The rounded request; nullopt if the range is empty or wraps.
[[gnu::always_inline]] inline std::optional<Cache::Request> Cache::request_of(const void* address, std::size_t length,
                                                                              Access access) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  constexpr auto kMax = std::numeric_limits<std::uintptr_t>::max();
  if (length == 0 || length > kMax - first || kMax - first - length < granularity_) [[unlikely]]
    return std::nullopt;
  return Request{first & ~(granularity_ - 1), align_up(first + length, granularity_), access};
}

/// The registration of a hint that serves the request, with a lease in `table`; null if there is none.
[[gnu::always_inline]] inline Registration* Cache::follow_hint(const Request& request, LeaseTable* table) noexcept {
  if (table == nullptr) [[unlikely]]
    return nullptr;
  const auto serves = [&](Registration& hint) { return try_lease(*table, hint, request); };
  Registration* const hit = hints_.find(request.begin, serves);
  if (hit != nullptr) [[likely]]
    table->count_hit();
  return hit;
}

Result<Lease> Cache::get(const void* address, std::size_t length, Access access) noexcept {
  const std::optional<Request> request = request_of(address, length, access);
  if (!request) [[unlikely]]
    return refuse({Errc::invalid_argument, 0, "rcache get(empty or wrapping range)", length});
  LeaseTable* const table = counted_under_lock_ ? nullptr : my_lease_table(id_);
  if (Registration* const hit = follow_hint(*request, table); hit != nullptr) [[likely]]
    return Lease{*this, *hit, nullptr};
  return get_slowly(*request, table);
}

Lease Cache::hit(const void* address, std::size_t length, Access access) noexcept {
  const std::optional<Request> request = request_of(address, length, access);
  if (!request) return {};
  LeaseTable* const table = counted_under_lock_ ? nullptr : my_lease_table(id_);
  Registration* const hit = follow_hint(*request, table);
  return hit != nullptr ? Lease{*this, *hit, nullptr} : Lease{};
}

Lease Cache::find(const void* address, std::size_t length, Access access) noexcept {
  const std::optional<Request> request = request_of(address, length, access);
  if (!request) return {};
  LeaseTable* table = counted_under_lock_ ? nullptr : my_lease_table(id_);
  if (table == nullptr && !counted_under_lock_) table = make_lease_table();
  auto hold = make_hold(*request);
  if (!hold) return {};
  const Lock lock{*this};
  return hit_locked(*request, table, *hold);
}

Error Cache::refuse(const Error& error) noexcept {
  const Lock lock{*this};
  ++statistics_.failures;
  return error;
}

/// get() for a request without a usable hint.
Result<Lease> Cache::get_slowly(const Request& request, LeaseTable* table) noexcept {
  if (table == nullptr && !counted_under_lock_) table = make_lease_table();
  auto hold = make_hold(request);
  if (!hold) return refuse(hold.error());
  Lock lock{*this};
  if (Lease hit = hit_locked(request, table, *hold)) return hit;
  ++statistics_.misses;
  auto lease = register_new(request, lock, table, *hold);
  if (!lease) ++statistics_.failures;
  return lease;
}

/// Allocates the PageHold of a lease; null if the policy is not page_refcount.
Result<std::unique_ptr<PageHold>> Cache::make_hold(const Request& request) const noexcept {
  if (config_.overlap != Overlap::page_refcount) return std::unique_ptr<PageHold>{};
  std::unique_ptr<PageHold> hold{new (std::nothrow) PageHold{request.begin, request.end}};
  if (hold == nullptr) return Error{Errc::no_memory, 0, "rcache get(bookkeeping)", sizeof(PageHold)};
  return hold;
}

/// A lease of a registration of the index that serves the request; empty if there is none.
Lease Cache::hit_locked(const Request& request, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept {
  Registration* const hit = index_.find_containing(request.begin, request.end, request.access);
  if (hit == nullptr) return {};
  ++statistics_.hits;
  if (table != nullptr) hints_.remember(request.begin, *hit);
  return lease_locked(*hit, table, hold);
}

/// Makes a lease of a registration, which is in the index or was just registered.
Lease Cache::lease_locked(Registration& registration, LeaseTable* table, std::unique_ptr<PageHold>& hold) noexcept {
  if (registration.state_ == Registration::State::indexed &&
      registration.serving_.load(std::memory_order_relaxed) == 0) {
    serve_locked(registration);  // stop_serving_oldest_locked() had prepared its eviction
  }
  if (table != nullptr) {
    table->add(registration);
  } else {
    registration.users_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (hold != nullptr) {
    hold->next = registration.holds_;
    if (hold->next != nullptr) hold->next->previous = hold.get();
    registration.holds_ = hold.get();
  }
  return Lease{*this, registration, hold.release()};
}

bool Lease::end_at_once() noexcept {
  if (registration_ == nullptr) return true;
  if (cache_->counted_under_lock_) return false;
  LeaseTable* const table = my_lease_table(cache_->id_);
  if (table == nullptr || registration_->serving_.load(std::memory_order_relaxed) == 0) return false;
  table->subtract(*std::exchange(registration_, nullptr), cache_->clock_.load(std::memory_order_relaxed));
  return true;
}

void Lease::give_back() noexcept {
  Cache& cache = *cache_;
  Registration& registration = *std::exchange(registration_, nullptr);
  if (cache.counted_under_lock_) [[unlikely]]
    return cache.give_back_counted(registration, hold_);
  if (LeaseTable* const table = my_lease_table(cache.id_); table != nullptr) [[likely]] {
    table->subtract(registration, cache.clock_.load(std::memory_order_relaxed));
  } else {
    registration.used_at(cache.clock_.fetch_add(1, std::memory_order_relaxed) + 1);
    registration.users_.fetch_sub(1, std::memory_order_seq_cst);
  }
  // The object may be another registration by now: undo_if_unused() checks it under the lock.
  if (registration.serving_.load(std::memory_order_relaxed) == 0) [[unlikely]]
    cache.undo_if_unused(registration);
}

/// The end of a lease that is counted under the lock.
void Cache::give_back_counted(Registration& registration, PageHold* hold) noexcept {
  const std::unique_ptr<PageHold> ended{hold};
  const std::uintptr_t begin = hold != nullptr ? hold->begin : registration.begin();
  const std::uintptr_t end = hold != nullptr ? hold->end : registration.end();
  Lock lock{*this};
  if (registration.epoch_ != epoch_) return;  // the parent process made it
  const auto now = [this] { return clock_.fetch_add(1, std::memory_order_relaxed) + 1; };
  registration.used_at(now());
  registration.users_.fetch_sub(1, std::memory_order_seq_cst);
  if (hold != nullptr) {
    (hold->previous != nullptr ? hold->previous->next : registration.holds_) = hold->next;
    if (hold->next != nullptr) hold->next->previous = hold->previous;
    index_.find_overlapping(begin, end, [&](Registration& other) {  // the hold kept these in use, too
      other.used_at(now());
      return false;
    });
  }
  undo_if_unused(registration, lock);
  if (config_.leave_pinned) return;
  while (Registration* const gone = unused_locked(begin, end)) {
    withdraw_locked(*gone);
    release(*gone, lock);
  }
}

Statistics Cache::statistics() const noexcept {
  const Lock lock{*this};
  Statistics sum = statistics_;
  for (const LeaseTable* table = tables_.get(); table != nullptr; table = table->next.get()) {
    sum.hits += table->hits();
  }
  index_.find_overlapping(0, std::numeric_limits<std::uintptr_t>::max(), [&](const Registration& registration) {
    Use use;
    if (!idle_locked(registration, use)) return false;
    ++sum.idle.count;
    sum.idle.bytes += registration.length();
    return false;
  });
  return sum;
}

}  // namespace opal::rcache
