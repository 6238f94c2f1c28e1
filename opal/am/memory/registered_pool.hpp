// SPDX-License-Identifier: Apache-2.0
// opal/am/memory/registered_pool.hpp — an allocator of registered memory.  Blocks are parts of slabs; each slab is
// registered once, with all rights, with every transport whose Attributes::own_handles is set, through the registration
// caches.  Puts, gets and expose() of a block are therefore cache hits.  Without such a transport it is plain memory.
// The pool grows by slabs.  It unmaps slabs without blocks when more memory is idle than in use; their registrations
// end with the next registration that is made.
// Ownership: the opener; the pool is destroyed before its Context.  Threads: as the Context.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "opal/allocator/allocator.hpp"
#include "opal/allocator/bucket.hpp"
#include "opal/am/context.hpp"
#include "opal/core/export.hpp"
#include "opal/mpool/pool.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::am {

class OPAL_EXPORT RegisteredPool final : public allocator::Allocator {
 public:
  static constexpr std::size_t kSlab = std::size_t{1} << 20;  ///< bytes

  /// Allocates no slab yet.  Errors: no_memory.
  static Result<std::unique_ptr<RegisteredPool>> open(Context& context);

  /// Errors: as Allocator::allocate(); also limit_reached and other errors of a device that cannot register a slab.
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = allocator::kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] allocator::Usage usage() const noexcept override { return blocks_.usage(); }
  std::size_t trim() noexcept override;

 private:
  /// Allocates and registers the slabs for blocks_.  Under the Context's lock.
  class Slabs final : public allocator::Allocator {
   public:
    Slabs(Context& context, std::unique_ptr<mpool::Pool> pages) noexcept
        : context_(context), pages_(std::move(pages)) {}
    Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
    Result<void> deallocate(std::byte* address) noexcept override;
    [[nodiscard]] allocator::Usage usage() const noexcept override { return pages_->usage(); }

   private:
    [[nodiscard]] Result<std::vector<rcache::Lease>> register_with_devices(std::byte* slab, std::size_t size) noexcept;
    Context& context_;
    std::unique_ptr<mpool::Pool> pages_;
    std::map<std::byte*, std::vector<rcache::Lease>> leases_;  // by slab: one lease per device
  };

  RegisteredPool(Context& context, std::unique_ptr<mpool::Pool> pages) noexcept
      : context_(context), slabs_(context, std::move(pages)) {}

  Context& context_;
  Slabs slabs_;
  allocator::Bucket blocks_{slabs_, {.smallest = 64, .largest = kSlab / 4, .slab = kSlab}};
};

}  // namespace opal::am
