// SPDX-License-Identifier: Apache-2.0
// Lock order: the Context's lock, then that of the blocks, since a handler, which runs under the former, may allocate.
#include "opal/am/memory/registered_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/am/state.hpp"

namespace opal::am {

Result<std::vector<rcache::Lease>> RegisteredPool::Slabs::register_with_devices(std::byte* slab,
                                                                                std::size_t size) noexcept try {
  if (context_.state_->inherited) return kInherited;
  std::vector<rcache::Lease> leases;
  for (const auto& registrations : context_.state_->registration_caches) {
    if (!registrations->module().attributes().own_handles) continue;
    OPAL_TRY_ASSIGN(rcache::Lease lease,
                    registrations->cache().get(slab, size, static_cast<rcache::Access>(Rights::all)));
    leases.push_back(std::move(lease));
  }
  return leases;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "RegisteredPool(bookkeeping)", size};
}

Result<std::byte*> RegisteredPool::Slabs::allocate(std::size_t size, std::size_t alignment) noexcept {
  OPAL_TRY_ASSIGN(std::byte* const slab, pages_->allocate(size, alignment));
  auto leases = register_with_devices(slab, size);
  if (leases) {
    try {
      leases_.emplace(slab, std::move(*leases));
      return slab;
    } catch (const std::bad_alloc&) {
      leases = Error{Errc::no_memory, 0, "RegisteredPool(bookkeeping)", size};
    }
  }
  (void)pages_->deallocate(slab);
  return leases.error();
}

Result<void> RegisteredPool::Slabs::deallocate(std::byte* address) noexcept {
  leases_.erase(address);              // makes the registrations idle
  return pages_->deallocate(address);  // unmaps the slab, which invalidates them
}

Result<std::unique_ptr<RegisteredPool>> RegisteredPool::open(Context& context) {
  OPAL_TRY_ASSIGN(auto pages, mpool::open("heap"));
  return std::unique_ptr<RegisteredPool>{new RegisteredPool{context, std::move(pages)}};
}

Result<std::byte*> RegisteredPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  const Lock::Guard guard{context_.state_->lock};
  return blocks_.allocate(size, alignment);
}

Result<void> RegisteredPool::deallocate(std::byte* address) noexcept {
  const Lock::Guard guard{context_.state_->lock};
  OPAL_TRY(blocks_.deallocate(address));
  const allocator::Usage now = blocks_.usage();
  // Keep as much idle memory as is in use, and a few slabs, so that the walk over all slabs is rare.
  constexpr std::size_t kKept = 4 * kSlab;
  if (now.managed - now.used > std::max(now.used, kKept)) (void)blocks_.trim();
  return {};
}

std::size_t RegisteredPool::trim() noexcept {
  const Lock::Guard guard{context_.state_->lock};
  return blocks_.trim();
}

}  // namespace opal::am
