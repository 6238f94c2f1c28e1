// SPDX-License-Identifier: Apache-2.0
// Which addresses device memory has: a range of the process's own at which nothing can be read or written, so that they
// differ from every host address, as with unified addressing.
#include <sys/mman.h>

#include <algorithm>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

constexpr std::size_t kArena = std::size_t{1} << 38;

constexpr std::uintptr_t aligned(std::uintptr_t address, std::size_t alignment) {
  return (address + alignment - 1) & ~(alignment - 1);
}

}  // namespace

std::uintptr_t Machine::take_addresses(std::size_t size, std::size_t alignment) {
  if (arena_ == 0) {
    void* const address = ::mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) return 0;
    arena_ = fresh_ = reinterpret_cast<std::uintptr_t>(address);
  }
  std::uintptr_t begin = aligned(setting(Setting::reuse) != 0 ? arena_ : fresh_, alignment);
  for (const auto& [base, length] : taken_) {  // the lowest gap that is large enough
    if (base + length <= begin) continue;
    if (base >= begin && base - begin >= size) break;
    begin = aligned(std::max(begin, base + length), alignment);
  }
  if (begin - arena_ > kArena || size > kArena - (begin - arena_)) return 0;
  taken_[begin] = size;
  fresh_ = std::max(fresh_, begin + size);
  return begin;
}

void Machine::give_addresses(std::uintptr_t base) { taken_.erase(base); }

bool Machine::is_device_address(std::uintptr_t address) const {
  return arena_ != 0 && address >= arena_ && address - arena_ < kArena;
}

Block* Machine::block_at(std::uintptr_t address) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return address - block.base < block.size ? &block : nullptr;
}

Block& Machine::add_block(Block block) {
  block.buffer = new_id();
  return blocks[block.base] = std::move(block);
}

void Machine::remove_block(std::uintptr_t base) {
  const auto found = blocks.find(base);
  const Block& block = found->second;
  if (block.kind == Kind::legacy) devices[static_cast<std::size_t>(block.device)].used -= block.size;
  if (block.kind == Kind::host || block.kind == Kind::managed) ::munmap(reinterpret_cast<void*>(base), block.size);
  if (is_device_address(base) && block.kind != Kind::mapped) give_addresses(base);  // those stay reserved
  blocks.erase(found);
}

/// Nothing for addresses of devices at which there is no memory, not all of it, or none that may be accessed.
std::optional<Place> Machine::place(std::uintptr_t address, std::size_t size) {
  const Block* const block = block_at(address);
  if (block == nullptr) {
    if (is_device_address(address)) return std::nullopt;
    return Place{reinterpret_cast<std::byte*>(address), size, nullptr, true};
  }
  const std::size_t offset = address - block->base;
  const std::size_t rest = block->size - offset;
  if (!block->accessible || (size > rest && block->kind != Kind::mapped)) return std::nullopt;
  return Place{block->bytes() + offset, std::min(size, rest), block->store, false};
}

}  // namespace opal::cuda_double
