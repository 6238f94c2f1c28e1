// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/basic.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <new>

namespace opal::allocator {
namespace {

std::uint64_t number(const std::byte* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

std::byte* address_of(std::uint64_t number) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(number));
}

}  // namespace

Result<std::unique_ptr<Basic>> Basic::over(MutableBytes memory) noexcept {
  std::unique_ptr<Basic> basic{new (std::nothrow) Basic(nullptr, 0)};
  if (!basic) return Error{Errc::no_memory, 0, "Basic::over(bookkeeping)"};
  OPAL_TRY(basic->ranges_.add(number(memory.data()), memory.size()));
  return basic;
}

Result<std::unique_ptr<Basic>> Basic::over(Allocator& parent, std::size_t run) noexcept {
  std::unique_ptr<Basic> basic{new (std::nothrow) Basic(&parent, run)};
  if (!basic) return Error{Errc::no_memory, 0, "Basic::over(bookkeeping)"};
  return basic;
}

Basic::~Basic() {
  for (const auto& [address, size] : runs_) (void)parent_->deallocate(address);
}

Result<std::byte*> Basic::allocate(std::size_t size, std::size_t alignment) noexcept {
  const std::lock_guard lock{mutex_};
  auto block = ranges_.allocate(size, alignment);
  if (!block && block.error().code == Errc::no_space && parent_ != nullptr) {
    OPAL_TRY(grow_locked(size, alignment));
    block = ranges_.allocate(size, alignment);
  }
  if (!block) return block.error();
  return address_of(*block);
}

Result<void> Basic::grow_locked(std::size_t size, std::size_t alignment) noexcept try {
  constexpr std::size_t kSlack = 64;  // more than the rounding of a block
  if (size > std::numeric_limits<std::size_t>::max() - kSlack) {
    return Error{Errc::no_space, 0, "Basic::allocate(size)", size};
  }
  const std::size_t wanted = std::max(size + kSlack, run_);
  OPAL_TRY_ASSIGN(std::byte* const run, parent_->allocate(wanted, std::max(alignment, kDefaultAlignment)));
  try {
    runs_.emplace(run, wanted);
  } catch (...) {
    (void)parent_->deallocate(run);
    throw;
  }
  if (auto added = ranges_.add(number(run), wanted); !added) {
    runs_.erase(run);
    (void)parent_->deallocate(run);
    return added.error();
  }
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Basic::allocate(bookkeeping)", size};
}

Result<void> Basic::deallocate(std::byte* address) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(ranges_.deallocate(number(address)));
  return {};
}

Usage Basic::usage() const noexcept {
  const std::lock_guard lock{mutex_};
  return {ranges_.managed(), ranges_.used(), ranges_.blocks()};
}

std::size_t Basic::trim() noexcept {
  const std::lock_guard lock{mutex_};
  std::size_t bytes = 0;
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (!ranges_.remove(number(run->first), run->second)) {
      ++run;
      continue;
    }
    bytes += run->second;
    (void)parent_->deallocate(run->first);
    run = runs_.erase(run);
  }
  return bytes;
}

}  // namespace opal::allocator
