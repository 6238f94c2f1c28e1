// SPDX-License-Identifier: Apache-2.0
// A forked child starts with an empty cache.  It neither uses nor deregisters the parent's registrations.
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

/// Runs in the only thread of the child.  It touches no registration, so a child that only calls exec copies none of
/// their pages.  Another thread of the parent may have held the lock for a memory event, which a fork does not exclude,
/// so the lock is constructed anew.  Leases
/// that exist in the child stay harmless: their registrations are never used again.
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
  // Not destroyed first: threads of the parent may wait for it, and the destructor would wait for them.
  std::construct_at(&released_);
  std::construct_at(&mutex_);
  forking_ = false;
}

}  // namespace opal::rcache
