// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/bucket.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <new>

namespace opal::allocator {
namespace {

Error not_a_block(const char* where, const std::byte* address) noexcept {
  return {Errc::invalid_argument, 0, where, reinterpret_cast<std::uintptr_t>(address)};
}

}  // namespace

Bucket::~Bucket() {
  for (const auto& [address, slab] : slabs_) (void)parent_.deallocate(address);
}

Bucket::Class& Bucket::class_of(std::size_t block) noexcept {
  return classes_[static_cast<std::size_t>(std::countr_zero(block))];
}

Result<std::byte*> Bucket::allocate(std::size_t size, std::size_t alignment) noexcept {
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Bucket::allocate(alignment is not a power of two)", alignment};
  }
  const std::size_t needed = std::max({size, alignment, options_.smallest});
  const std::lock_guard lock{mutex_};
  if (needed > options_.largest) return allocate_dedicated_locked(std::max<std::size_t>(size, 1), alignment);
  const std::size_t block = std::bit_ceil(needed);
  Class& size_class = class_of(block);
  if (size_class.free.empty()) OPAL_TRY(refill_locked(size_class, block));
  const FreeBlock top = size_class.free.back();
  size_class.free.pop_back();
  return take_block_locked(top.slab, top.address);
}

Result<std::byte*> Bucket::allocate_dedicated_locked(std::size_t size, std::size_t alignment) noexcept {
  OPAL_TRY_ASSIGN(const auto slab, add_slab_locked(size, size, alignment));
  slab->second.dedicated = true;
  return take_block_locked(slab, slab->first);
}

std::byte* Bucket::take_block_locked(Slabs::iterator slab, std::byte* address) noexcept {
  Slab& s = slab->second;
  s.live_blocks[static_cast<std::size_t>(address - slab->first) / s.block] = true;
  ++s.live;
  usage_.used += s.block;
  ++usage_.blocks;
  return address;
}

Result<Bucket::Slabs::iterator> Bucket::add_slab_locked(std::size_t bytes, std::size_t block,
                                                        std::size_t alignment) noexcept {
  OPAL_TRY_ASSIGN(std::byte* const base, parent_.allocate(bytes, alignment));
  try {
    Slab slab{.bytes = bytes, .block = block};
    slab.live_blocks.resize(bytes / block);
    const auto added = slabs_.emplace(base, std::move(slab)).first;
    usage_.managed += bytes;
    return added;
  } catch (const std::bad_alloc&) {
    (void)parent_.deallocate(base);
    return Error{Errc::no_memory, 0, "Bucket::allocate(bookkeeping)", bytes};
  }
}

Result<void> Bucket::refill_locked(Class& size_class, std::size_t block) noexcept {
  const std::size_t bytes = std::max(options_.slab, block);
  OPAL_TRY_ASSIGN(const auto slab, add_slab_locked(bytes, block, block));
  try {
    // To a power of two, so that not every refill copies the list.
    size_class.free.reserve(std::bit_ceil(size_class.blocks + bytes / block));
  } catch (const std::bad_alloc&) {
    release_slab_locked(slab);
    return Error{Errc::no_memory, 0, "Bucket::allocate(bookkeeping)", bytes};
  }
  size_class.blocks += bytes / block;
  for (std::size_t offset = bytes; offset > 0; offset -= block) {  // so that the lowest address is on top
    size_class.free.push_back({slab->first + offset - block, slab});
  }
  return {};
}

Result<void> Bucket::deallocate(std::byte* address) noexcept {
  const std::lock_guard lock{mutex_};
  auto found = slabs_.upper_bound(address);
  if (found == slabs_.begin()) return not_a_block("Bucket::deallocate(foreign address)", address);
  --found;
  Slab& slab = found->second;
  const auto offset = static_cast<std::size_t>(address - found->first);
  if (offset >= slab.bytes) return not_a_block("Bucket::deallocate(foreign address)", address);
  if (offset % slab.block != 0) return not_a_block("Bucket::deallocate(inside a block, not its start)", address);
  if (!slab.live_blocks[offset / slab.block]) {
    return not_a_block("Bucket::deallocate(address is free already: freed twice?)", address);
  }
  slab.live_blocks[offset / slab.block] = false;
  --slab.live;
  usage_.used -= slab.block;
  --usage_.blocks;
  if (slab.dedicated) {
    release_slab_locked(found);
  } else {
    class_of(slab.block).free.push_back({address, found});
  }
  return {};
}

void Bucket::release_slab_locked(Slabs::iterator slab) noexcept {
  usage_.managed -= slab->second.bytes;
  (void)parent_.deallocate(slab->first);
  slabs_.erase(slab);
}

Usage Bucket::usage() const noexcept {
  const std::lock_guard lock{mutex_};
  return usage_;
}

std::size_t Bucket::trim() noexcept {
  const std::lock_guard lock{mutex_};
  const std::size_t before = usage_.managed;
  for (Class& size_class : classes_) {
    std::erase_if(size_class.free, [](const FreeBlock& block) { return block.slab->second.live == 0; });
  }
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    const auto next = std::next(slab);
    if (slab->second.live == 0) {
      class_of(slab->second.block).blocks -= slab->second.bytes / slab->second.block;
      release_slab_locked(slab);
    }
    slab = next;
  }
  return before - usage_.managed;
}

}  // namespace opal::allocator
