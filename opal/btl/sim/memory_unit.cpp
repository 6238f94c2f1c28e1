// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/memory_unit.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::sim {
namespace {

std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

Result<void> copy(std::byte* to, const std::byte* from, std::size_t size, std::uint64_t remote) noexcept {
  if (guarded_copy(to, from, size)) return {};
  return Error{Errc::invalid_argument, EFAULT, "sim: a device accessed memory that is not there", remote};
}

}  // namespace

Result<Key> key_of(const MemoryHandle& handle) noexcept {
  Key key{};
  if (handle.bytes().size() != sizeof key || !read_object(handle.bytes(), key) || key.magic != kKeyMagic) {
    return Error{Errc::invalid_argument, 0, "sim: not a handle of this transport", handle.bytes().size()};
  }
  return key;
}

MemoryUnit::MemoryUnit(const Config& config, std::uint64_t first_generation) noexcept
    : limits_{config.registrations, config.registered_bytes.bytes == 0 ? UINT64_MAX : config.registered_bytes.bytes},
      next_generation_(first_generation) {}

Result<MemoryHandle> MemoryUnit::add(void* base, std::uint64_t size, Rights rights) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  if (size > std::numeric_limits<std::uint64_t>::max() - address) {
    return Error{Errc::invalid_argument, 0, "register_memory(sim): the range wraps around the address space", size};
  }
  const std::lock_guard lock{mutex_};
  if (use_.count >= limits_.count || size > limits_.bytes || use_.bytes > limits_.bytes - size) {
    ++use_.refused;
    return Error{Errc::limit_reached, 0, "register_memory(sim): the device has no room", size};
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  mark_stale_locked();    // first: it may mark every slot
  next_generation_ += 2;  // stays odd: never the generation of a free slot
  slots_[index] = {next_generation_, address, size, rights};
  ++use_.count;
  ++use_.registered;
  use_.bytes += size;
  use_.most_count = std::max(use_.most_count, use_.count);
  use_.most_bytes = std::max(use_.most_bytes, use_.bytes);
  const Key key{kKeyMagic, next_generation_, address, size, index, static_cast<std::uint32_t>(rights)};
  return MemoryHandle::from_bytes(bytes_of(key));
}

Result<void> MemoryUnit::remove(const MemoryHandle& handle) noexcept {
  OPAL_TRY_ASSIGN(const Key key, key_of(handle));
  const std::lock_guard lock{mutex_};
  if (key.slot >= slots_.size() || key.generation == 0 || slots_[key.slot].generation != key.generation) {
    return Error{Errc::invalid_argument, 0,
                 "deregister_memory(sim): handle was removed before, or is of another device", key.base};
  }
  mark_stale_locked();
  Slot& slot = slots_[key.slot];
  --use_.count;
  use_.bytes -= slot.size;
  slot = {};
  free_.push_back(key.slot);
  return {};
}

void MemoryUnit::invalidate(const MemoryHandle& handle) noexcept {
  const auto key = key_of(handle);
  if (!key) return;
  stale_.add(key->slot);
  // This thread may hold the lock.
  if (const std::unique_lock lock{mutex_, std::try_to_lock}; lock) mark_stale_locked();
}

/// The registration of a slot named here is still the one that was invalidated: remove() calls this first.
void MemoryUnit::mark_stale_locked() noexcept {
  const bool some_lost = stale_.take([this](std::uint32_t slot) {
    if (slot < slots_.size()) slots_[slot].stale = true;
  });
  if (some_lost) {
    for (Slot& slot : slots_) slot.stale = true;
  }
}

Result<void> MemoryUnit::check_locked(const Key& key, std::uint64_t address, std::uint64_t size,
                                      Rights wanted) noexcept {
  mark_stale_locked();
  if (key.slot >= slots_.size() || key.generation == 0 || slots_[key.slot].generation != key.generation ||
      slots_[key.slot].stale) {
    ++use_.faults;
    return Error{Errc::invalid_argument, 0, "sim: the registration was removed or invalidated", address};
  }
  const Slot& slot = slots_[key.slot];
  if (address < slot.base || size > slot.size || address - slot.base > slot.size - size) {
    ++use_.faults;
    return Error{Errc::invalid_argument, 0, "remote address outside the registered region", address};
  }
  if (!includes(slot.rights, wanted)) {
    ++use_.faults;
    return Error{Errc::permission, 0, "registration does not grant this access", static_cast<std::uint64_t>(wanted)};
  }
  return {};
}

Result<void> MemoryUnit::check(const Key& key, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept {
  const std::lock_guard lock{mutex_};
  return check_locked(key, address, size, wanted);
}

Result<void> MemoryUnit::read(const Key& key, std::uint64_t address, MutableBytes out, Rights wanted) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(check_locked(key, address, out.size(), wanted));
  return copy(out.data(), at(address), out.size(), address);
}

Result<void> MemoryUnit::write(const Key& key, std::uint64_t address, ByteSpan bytes, Rights wanted) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(check_locked(key, address, bytes.size(), wanted));
  return copy(at(address), bytes.data(), bytes.size(), address);
}

void MemoryUnit::set_limits(const MemoryLimits& limits) noexcept {
  const std::lock_guard lock{mutex_};
  limits_ = limits;
}

MemoryUse MemoryUnit::use() const noexcept {
  const std::lock_guard lock{mutex_};
  return use_;
}

}  // namespace opal::btl::sim
