// SPDX-License-Identifier: Apache-2.0
// Leases and last use of a registration, from the LeaseTables of all threads.
#include <new>

#include "opal/rcache/cache.hpp"

namespace opal::rcache {

/// Makes a table for the calling thread, or reuses one of an ended thread.  Null: memory is short or the thread ends.
LeaseTable* Cache::make_lease_table() noexcept try {
  std::shared_ptr<LeaseTable> table;
  bool fresh = false;
  {
    const Lock lock{*this};
    for (table = tables_; table != nullptr; table = table->next) {
      if (table->abandoned.exchange(false, std::memory_order_acquire)) break;
    }
  }
  if (table == nullptr) {
    table = std::make_shared<LeaseTable>();
    fresh = true;
  }
  if (!adopt_lease_table(id_, table)) {
    table->abandoned = true;
    if (fresh) return nullptr;
  }
  if (fresh) {
    const Lock lock{*this};
    table->next = std::move(tables_);
    tables_ = table;
  }
  return my_lease_table(id_);
} catch (const std::bad_alloc&) {
  return nullptr;
}

Cache::Use Cache::use_of_locked(const Registration& registration) const noexcept {
  Use use;
  for (const LeaseTable* table = tables_.get(); table != nullptr; table = table->next.get()) {
    table->look_up(registration, use.users, use.last);
  }
  use.users += registration.users_.load(std::memory_order_seq_cst);  // last: see lease_table.hpp
  use.last = std::max(use.last, registration.last_use_.load(std::memory_order_relaxed));
  return use;
}

/// True if it has no leases, and with page_refcount no lease holds one of its pages.  Sets `use`.
bool Cache::idle_locked(const Registration& registration, Use& use) const noexcept {
  use = use_of_locked(registration);
  return use.users == 0 && (config_.overlap != Overlap::page_refcount || !pages_held_locked(registration));
}

/// New hits without the lock do not take it from now on.  Hits in flight may still take it: see
/// know_all_users_locked().
void Cache::stop_serving_locked(Registration& registration) noexcept {
  if (registration.serving_.load(std::memory_order_relaxed) == 0) return;
  registration.serving_.store(0, std::memory_order_seq_cst);
  registration.withdrawn_ = ++withdrawals_;
}

/// Makes use_of_locked() exact for a registration that has stopped serving: no hit in flight can add a lease
/// afterwards.
void Cache::know_all_users_locked(const Registration& registration) noexcept {
  if (counted_under_lock_ || registration.withdrawn_ <= fenced_) return;
  if (!this_thread_alone_locked()) asymmetric_fence::make_all_fence();
  fenced_ = withdrawals_;
}

/// True if no other thread can have a hit in flight.  A thread without a table makes one under the lock before its
/// first hit, and so sees earlier withdrawals.
bool Cache::this_thread_alone_locked() const noexcept {
  return tables_ == nullptr || (tables_->next == nullptr && tables_.get() == my_lease_table(id_));
}

/// True if a lease of any registration, indexed or retired, holds one of its pages.
bool Cache::pages_held_locked(const Registration& registration) const noexcept {
  const auto holds_some = [&](const Registration& other) {
    for (const PageHold* hold = other.holds_; hold != nullptr; hold = hold->next) {
      if (registration.overlaps(hold->begin, hold->end)) return true;
    }
    return false;
  };
  if (index_.find_overlapping(registration.begin(), registration.end(), holds_some) != nullptr) return true;
  for (const Registration* r = retired_.front(); r != nullptr; r = RegistrationList::next(*r)) {
    if (holds_some(*r)) return true;
  }
  return false;
}

bool Cache::retired_in_use(const void* address, std::size_t length) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const Lock lock{*this};
  for (const Registration* r = retired_.front(); r != nullptr; r = RegistrationList::next(*r)) {
    if (r->overlaps(begin, begin + length) && use_of_locked(*r).users != 0) return true;
  }
  return false;
}

/// Sets clock_ to at least all uses recorded so far, so that every later use gets a later time.
void Cache::advance_clock_locked() noexcept {
  std::uint64_t latest = clock_.load(std::memory_order_relaxed);
  for (const LeaseTable* table = tables_.get(); table != nullptr; table = table->next.get()) {
    latest = std::max(latest, table->clock());
  }
  clock_.store(latest, std::memory_order_relaxed);
}

}  // namespace opal::rcache
