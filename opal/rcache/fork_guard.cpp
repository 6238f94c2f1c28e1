// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/fork_guard.hpp"

#include <pthread.h>

#include <memory>
#include <mutex>

#include "opal/core/log.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::rcache {
namespace {

constinit std::mutex mutex;
constinit Cache* first = nullptr;
constinit bool installed = false;

}  // namespace

void ForkGuard::add(Cache& cache) noexcept {
  const std::lock_guard lock{mutex};
  if (!installed) {
    installed = ::pthread_atfork(&before, &after_in_parent, &after_in_child) == 0;
    if (!installed) log::warn("rcache", "pthread_atfork: no memory; forked children must not use OPAL");
  }
  cache.next_cache_ = first;
  first = &cache;
}

void ForkGuard::remove(Cache& cache) noexcept {
  const std::lock_guard lock{mutex};
  Cache** link = &first;
  while (*link != &cache) link = &(*link)->next_cache_;
  *link = cache.next_cache_;
}

void ForkGuard::before() noexcept {
  mutex.lock();
  for (Cache* cache = first; cache != nullptr; cache = cache->next_cache_) cache->mutex_.lock();
}

void ForkGuard::after_in_parent() noexcept {
  for (Cache* cache = first; cache != nullptr; cache = cache->next_cache_) cache->mutex_.unlock();
  mutex.unlock();
}

void ForkGuard::after_in_child() noexcept {
  for (Cache* cache = first; cache != nullptr; cache = cache->next_cache_) {
    cache->start_empty_in_child();
    cache->mutex_.unlock();
  }
  mutex.unlock();
}

/// Runs in the child, where the other threads are gone.  No registration is looked at: a child that only wants to exec
/// copies no page.  Leases that the forking thread had stay harmless: their registrations are never used again.
void Cache::start_empty_in_child() noexcept {
  ++epoch_;
  hints_.abandon();
  index_.abandon();
  order_.abandon();
  pool_.abandon();
  pending_ = retired_ = {};
  const LeaseTable* const mine = my_lease_table(id_);
  for (LeaseTable* table = tables_.get(); table != nullptr; table = table->next.get()) {
    if (table != mine) table->abandoned = true;
  }
  statistics_ = {};
  releasing_ = 0;
  // Threads of the parent may be waiting at it, for which its destructor would wait here.
  std::construct_at(&released_);
}

}  // namespace opal::rcache
