// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/guarded.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "opal/core/bytes.hpp"
#include "opal/core/log.hpp"

namespace opal::allocator {
namespace {

constexpr std::byte kZone{0xfd};  // content of red zones

/// Offset of the first byte that is not `expected`; the size when there is none.
std::size_t first_other(const std::byte* bytes, std::size_t size, std::byte expected) noexcept {
  return static_cast<std::size_t>(std::find_if(bytes, bytes + size, [&](std::byte b) { return b != expected; }) -
                                  bytes);
}

void fill(std::byte* bytes, std::size_t size, std::byte value) noexcept {
  std::memset(bytes, static_cast<int>(value), size);
}

}  // namespace

Result<std::byte*> Guarded::allocate(std::size_t size, std::size_t alignment) noexcept try {
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Guarded::allocate(alignment is not a power of two)", alignment};
  }
  size = std::max<std::size_t>(size, 1);
  const std::size_t front = std::max(kRedZone, alignment);
  if (size > SIZE_MAX - front - kRedZone) return Error{Errc::no_space, 0, "Guarded::allocate(size)", size};
  const std::size_t total = front + size + kRedZone;
  const std::lock_guard lock{mutex_};
  auto base = parent_.allocate(total, alignment);
  if (!base && trim_locked() != 0) base = parent_.allocate(total, alignment);
  if (!base) return base.error();
  std::byte* const address = *base + front;
  try {
    live_.emplace(address, Block{*base, total, size, next_number_});
  } catch (...) {
    (void)parent_.deallocate(*base);
    throw;
  }
  ++next_number_;
  fill(*base, front, kZone);
  fill(address, size, kFresh);
  fill(address + size, kRedZone, kZone);
  usage_.managed += total;
  usage_.used += size;
  ++usage_.blocks;
  return address;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Guarded::allocate(bookkeeping)", size};
}

/// Logs an error for each red zone of the block that was written.
void Guarded::check_red_zones_locked(const std::byte* address, const Block& block) noexcept {
  const auto front = static_cast<std::size_t>(address - block.base);
  if (const std::size_t at = first_other(block.base, front, kZone); at != front) {
    log::error("allocator", "guard: block {} of {} bytes (allocation {}): {} bytes before its start were written",
               static_cast<const void*>(address), block.size, block.number, front - at);
  }
  if (const std::size_t at = first_other(address + block.size, kRedZone, kZone); at != kRedZone) {
    log::error("allocator", "guard: block {} of {} bytes (allocation {}): byte {} behind its end was written",
               static_cast<const void*>(address), block.size, block.number, at);
  }
}

Result<void> Guarded::deallocate(std::byte* address) noexcept try {
  const std::lock_guard lock{mutex_};
  const auto found = live_.find(address);
  if (found == live_.end()) {
    const bool twice = freed_.contains(address);
    return Error{Errc::invalid_argument, 0,
                 twice ? "Guarded::deallocate(address is free already: freed twice?)"
                       : "Guarded::deallocate(not the start of a block)",
                 reinterpret_cast<std::uintptr_t>(address)};
  }
  quarantine_.push_back(address);  // first, because it may throw
  const Block& block = found->second;
  check_red_zones_locked(address, block);
  fill(block.base, block.total, kFreed);
  usage_.used -= block.size;
  --usage_.blocks;
  quarantined_ += block.total;
  freed_.insert(live_.extract(found));
  (void)shorten_quarantine_locked(kQuarantine);
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "Guarded::deallocate(bookkeeping)"};
}

std::size_t Guarded::shorten_quarantine_locked(std::size_t bytes) noexcept {
  const std::size_t before = quarantined_;
  while (quarantined_ > bytes) {
    const Blocks::node_type freed = freed_.extract(quarantine_.front());
    quarantine_.pop_front();
    const Block& block = freed.mapped();
    if (const std::size_t at = first_other(block.base, block.total, kFreed); at != block.total) {
      log::error("allocator", "guard: block {} of {} bytes (allocation {}): byte {} was written after it was freed",
                 static_cast<const void*>(freed.key()), block.size, block.number,
                 static_cast<std::ptrdiff_t>(at) - (freed.key() - block.base));
    }
    quarantined_ -= block.total;
    usage_.managed -= block.total;
    (void)parent_.deallocate(block.base);
  }
  return before - quarantined_;
}

std::size_t Guarded::trim_locked() noexcept { return shorten_quarantine_locked(0) + parent_.trim(); }

std::size_t Guarded::trim() noexcept {
  const std::lock_guard lock{mutex_};
  return trim_locked();
}

Guarded::~Guarded() {
  (void)shorten_quarantine_locked(0);
  constexpr std::size_t kMostNamed = 10;
  if (!live_.empty()) {
    log::error("allocator", "guard: {} blocks of {} bytes were not freed", usage_.blocks, usage_.used);
  }
  std::size_t named = 0;
  for (const auto& [address, block] : live_) {
    if (named++ < kMostNamed) {
      log::error("allocator", "guard: not freed: {} of {} bytes (allocation {})", static_cast<const void*>(address),
                 block.size, block.number);
    }
    check_red_zones_locked(address, block);
    (void)parent_.deallocate(block.base);
  }
}

Usage Guarded::usage() const noexcept {
  const std::lock_guard lock{mutex_};
  return usage_;
}

}  // namespace opal::allocator
