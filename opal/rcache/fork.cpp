// SPDX-License-Identifier: Apache-2.0
// A forked child starts with an empty cache: what the parent registered belongs to the parent's device and is neither
// used nor undone by the child.
#include <memory>

#include "opal/rcache/cache.hpp"

namespace opal::rcache {

void Cache::before_fork() noexcept {
  const Lock lock{*this, Lock::For::event};
  forking_ = true;
}

void Cache::after_fork_in_parent() noexcept {
  {
    const Lock lock{*this, Lock::For::event};
    forking_ = false;
  }
  released_.notify_all();
}

/// Runs in the child, where the other threads are gone.  No registration is looked at: a child that only wants to exec
/// copies no page.  One of the threads may have been in an event: the lock is made anew.  Leases that the forking
/// thread had stay harmless: their registrations are never used again.
void Cache::after_fork_in_child() noexcept {
  asymmetric_fence::restart_in_child();
  ++epoch_;
  hints_.abandon();
  index_.abandon();
  retired_valid_.abandon();
  std::construct_at(&backlog_);
  order_.abandon();
  pool_.abandon();
  pending_ = retired_ = {};
  const LeaseTable* const mine = my_lease_table(id_);
  for (LeaseTable* table = tables_.get(); table != nullptr; table = table->next.get()) {
    if (table != mine) table->abandoned = true;
  }
  statistics_ = {};
  quiesced_ = false;
  releasing_ = 0;
  // Threads of the parent may be waiting at it, for which its destructor would wait here.
  std::construct_at(&released_);
  std::construct_at(&mutex_);
  forking_ = false;
}

}  // namespace opal::rcache
