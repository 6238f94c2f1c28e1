// SPDX-License-Identifier: Apache-2.0
#include "opal/am/memory/registered_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>
#include <utility>

#include "opal/am/state.hpp"

namespace opal::am {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 47;             // of a block and of an alignment
constexpr std::size_t kLargestShared = RegisteredPool::kSlab / 4;  // a larger block has a slab of its own
constexpr std::size_t kKept = 4 * RegisteredPool::kSlab;           // idle bytes that are kept in any case

}  // namespace

Result<std::unique_ptr<RegisteredPool>> RegisteredPool::open(Context& context) {
  return std::unique_ptr<RegisteredPool>{new RegisteredPool{context}};
}

Result<std::vector<rcache::Lease>> RegisteredPool::register_with_devices(MutableBytes slab) noexcept {
  if (context_.state_->inherited) return kInherited;
  std::vector<rcache::Lease> leases;
  for (const auto& registrations : context_.state_->registration_caches) {
    if (!registrations->module().attributes().own_handles) continue;
    OPAL_TRY_ASSIGN(rcache::Lease lease,
                    registrations->cache().get(slab.data(), slab.size(), static_cast<rcache::Access>(Rights::all)));
    leases.push_back(std::move(lease));
  }
  return leases;
}

/// Maps and registers a slab in which a block of this size and alignment fits.
Result<RegisteredPool::Slabs::iterator> RegisteredPool::add_slab(std::size_t size, std::size_t alignment) noexcept {
  const bool large = size > kLargestShared;
  const std::size_t bytes = large ? size : kSlab;
  OPAL_TRY_ASSIGN(Mapping pages, Mapping::aligned(align_up(bytes, base_page_size()),
                                                  std::max({alignment, large ? 1 : kLargestShared, base_page_size()}),
                                                  MAP_PRIVATE | MAP_ANONYMOUS));
  OPAL_TRY_ASSIGN(std::vector<rcache::Lease> leases, register_with_devices(pages.bytes()));
  Slab slab{std::move(pages), std::move(leases)};
  slab.of_one_block = large;
  OPAL_TRY(slab.blocks.grow(bytes));
  usage_.managed += slab.pages.size();
  std::byte* const base = slab.pages.data();
  return slabs_.emplace(base, std::move(slab)).first;
}

/// Null: no block of this size and alignment fits.
std::byte* RegisteredPool::allocate_in(Slabs::iterator slab, std::size_t size, std::size_t alignment) noexcept {
  auto& [base, content] = *slab;
  if (reinterpret_cast<std::uintptr_t>(base) % alignment != 0) return nullptr;
  const std::size_t before = content.blocks.used();
  const auto offset = content.blocks.allocate(size, alignment);
  if (!offset) return nullptr;
  usage_.used += content.blocks.used() - before;
  ++usage_.blocks;
  if (!content.of_one_block) latest_ = slab;
  return base + *offset;
}

Result<std::byte*> RegisteredPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "RegisteredPool::allocate(alignment is not a power of two)", alignment};
  }
  if (size > kLargest || alignment > kLargest) return Error{Errc::no_memory, 0, "RegisteredPool::allocate(size)", size};
  size = align_up(std::max<std::size_t>(size, 1), kCacheLine);
  const Lock::Guard guard{context_.state_->lock};
  if (size <= kLargestShared) {
    if (latest_ != slabs_.end()) {
      if (std::byte* const block = allocate_in(latest_, size, alignment); block != nullptr) return block;
    }
    for (auto slab = slabs_.begin(); slab != slabs_.end(); ++slab) {
      if (slab->second.of_one_block) continue;
      if (std::byte* const block = allocate_in(slab, size, alignment); block != nullptr) return block;
    }
  }
  OPAL_TRY_ASSIGN(const auto slab, add_slab(size, alignment));
  if (std::byte* const block = allocate_in(slab, size, alignment); block != nullptr) return block;
  unmap(slab);
  return Error{Errc::no_memory, 0, "RegisteredPool(bookkeeping)", size};
}

Result<void> RegisteredPool::deallocate(std::byte* address) noexcept {
  const Lock::Guard guard{context_.state_->lock};
  auto slab = slabs_.upper_bound(address);
  if (slab != slabs_.begin()) --slab;
  const std::size_t before = slab != slabs_.end() ? slab->second.blocks.used() : 0;
  if (slab == slabs_.end() || !slab->second.blocks.deallocate(static_cast<std::size_t>(address - slab->first))) {
    return Error{Errc::invalid_argument, 0, "RegisteredPool::deallocate(not a live block: foreign, or freed twice?)",
                 reinterpret_cast<std::uintptr_t>(address)};
  }
  usage_.used -= before - slab->second.blocks.used();
  --usage_.blocks;
  if (slab->second.of_one_block) {
    unmap(slab);
  } else if (usage_.managed - usage_.used > std::max(usage_.used, kKept)) {
    // Keep as much idle memory as is in use, and a few slabs, so that the walk over all slabs is rare.
    trim();
  }
  return {};
}

mpool::Usage RegisteredPool::usage() const noexcept {
  const Lock::Guard guard{context_.state_->lock};
  return usage_;
}

/// Returns the slab after it.  The leases end first, which makes the registrations idle; the unmapping invalidates
/// them.
RegisteredPool::Slabs::iterator RegisteredPool::unmap(Slabs::iterator slab) noexcept {
  usage_.managed -= slab->second.pages.size();
  if (latest_ == slab) latest_ = slabs_.end();
  return slabs_.erase(slab);
}

void RegisteredPool::trim() noexcept {
  const Lock::Guard guard{context_.state_->lock};
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    slab = slab->second.blocks.blocks() == 0 ? unmap(slab) : std::next(slab);
  }
}

}  // namespace opal::am
