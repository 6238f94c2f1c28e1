// SPDX-License-Identifier: Apache-2.0
// opal/am/memory/registered_pool.hpp — a pool of registered memory.  Blocks are parts of slabs; each slab is
// registered once, with all rights, with every transport whose Attributes::own_handles is set, through the registration
// caches.  Puts, gets and expose() of a block are therefore cache hits.  Without such a transport it is plain memory.
// The pool grows by slabs; a large block has one of its own.  It unmaps slabs without blocks when more memory is idle
// than in use; their registrations end with the next registration that is made.
// Ownership: the opener; the pool is destroyed before its Context.  Threads: as the Context.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "opal/allocator/best_fit.hpp"
#include "opal/am/context.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/pool.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::am {

class OPAL_EXPORT RegisteredPool final : public mpool::Pool {
 public:
  static constexpr std::size_t kSlab = std::size_t{1} << 20;  ///< bytes

  /// Allocates no slab yet.
  static Result<std::unique_ptr<RegisteredPool>> open(Context& context);

  /// Errors: as Pool::allocate(); also limit_reached and other errors of a device that cannot register a slab.
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = 1) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] mpool::Usage usage() const noexcept override;
  /// Unmaps the slabs without blocks.
  void trim() noexcept;

 private:
  struct Slab {
    Mapping pages;
    std::vector<rcache::Lease> leases;  // one per device; they end before the pages are unmapped
    allocator::BestFit blocks{kCacheLine};
    bool of_one_block = false;  // made for one large block, and unmapped with it
  };
  using Slabs = std::map<std::byte*, Slab>;  // by address

  explicit RegisteredPool(Context& context) noexcept : context_(context) {}
  Result<Slabs::iterator> add_slab(std::size_t size, std::size_t alignment) noexcept;
  [[nodiscard]] Result<std::vector<rcache::Lease>> register_with_devices(MutableBytes slab) noexcept;
  std::byte* allocate_in(Slabs::iterator slab, std::size_t size, std::size_t alignment) noexcept;
  Slabs::iterator unmap(Slabs::iterator slab) noexcept;

  Context& context_;
  Slabs slabs_;
  Slabs::iterator latest_ = slabs_.end();  // the slab of the latest block that is not large, which is tried first
  mpool::Usage usage_;
};

}  // namespace opal::am
