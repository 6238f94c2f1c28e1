// SPDX-License-Identifier: Apache-2.0
// opal/am/memory/registered_pool.hpp — memory that a Context's devices know before its first use: blocks cut out of
// slabs, each slab registered once with every transport that has handles of its own, through its cache.  Puts and gets
// from such a block find it registered; exposing one finds a registration with all rights.  Grows by slabs; those
// without blocks go back to the system when more is idle than in use, and their registrations end with the next one
// that is made. Where no transport has handles of its own it is plain memory. Its opener owns it; it ends before
// its Context.  Threads: as the Context.
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
  static constexpr std::size_t kSlab = std::size_t{1} << 20;

  /// Takes no memory yet.  Errors: no_memory.
  static Result<std::unique_ptr<RegisteredPool>> open(Context& context);

  /// Errors beside Allocator's: limit_reached and what else a device says that has no room for one more slab.
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = allocator::kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] allocator::Usage usage() const noexcept override { return blocks_.usage(); }
  std::size_t trim() noexcept override;

 private:
  /// Registered pages, for the blocks above.  Under the Context's lock.
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
    std::map<std::byte*, std::vector<rcache::Lease>> leases_;  // one per device
  };

  RegisteredPool(Context& context, std::unique_ptr<mpool::Pool> pages) noexcept
      : context_(context), slabs_(context, std::move(pages)) {}

  Context& context_;
  Slabs slabs_;
  allocator::Bucket blocks_{slabs_, {.smallest = 64, .largest = kSlab / 4, .slab = kSlab}};
};

}  // namespace opal::am
