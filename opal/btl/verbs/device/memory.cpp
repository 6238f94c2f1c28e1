// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/memory.hpp"

#include <cerrno>

namespace opal::btl::verbs {

Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept {
  wire::Handle decoded{};
  if (handle.bytes().size() != sizeof decoded || !read_object(handle.bytes(), decoded)) {
    return Error{Errc::protocol, 0, "memory handle: not one of verbs", handle.bytes().size()};
  }
  const bool has_key = (decoded.flags & wire::kHasKey) != 0;
  if ((decoded.flags & ~(wire::kHasKey | wire::kAtomics)) != 0 ||
      (!has_key && (decoded.key != 0 || decoded.flags != 0))) {
    return Error{Errc::protocol, 0, "memory handle: garbled", decoded.flags};
  }
  return decoded;
}

MemoryHandle software_part(const wire::Handle& handle) noexcept {
  return *MemoryHandle::from_bytes(bytes_of(handle.software));
}

Result<MemoryRegion> Memory::pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept {
  // Writable memory is registered for writing in any case, since the next use may be a get.
  MemoryRegion region{ibv_reg_mr(device_.domain(), base, size, access | IBV_ACCESS_LOCAL_WRITE)};
  writable = region != nullptr;
  if (region == nullptr && errno == EFAULT && (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) == 0) {
    region.reset(ibv_reg_mr(device_.domain(), base, size, access));
  }
  if (region == nullptr) return device_error(errno, "ibv_reg_mr (ulimit -l?)", size);
  return region;
}

MemoryRegion Memory::map_on_demand(void* base, std::uint64_t size, int access) const noexcept {
  if (!on_demand_.regions) return {};
  const int wanted = access | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
  return MemoryRegion{ibv_reg_mr(device_.domain(), base, size, wanted)};
}

Result<MemoryHandle> Memory::add(void* base, std::uint64_t size, Rights rights) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, table_.add(base, size, rights));
  wire::Handle handle{};
  OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
  if (size == 0) return MemoryHandle::from_bytes(bytes_of(handle));
  int access = 0;
  if (includes(rights, Rights::remote_read)) access |= IBV_ACCESS_REMOTE_READ;
  if (includes(rights, Rights::remote_write)) access |= IBV_ACCESS_REMOTE_WRITE;
  if (includes(rights, Rights::remote_atomic) && device_atomics_) access |= IBV_ACCESS_REMOTE_ATOMIC;
  Result<MemoryRegion> region = map_on_demand(base, size, access);
  bool writable = *region != nullptr;
  std::uint64_t pinned = 0;
  if (*region == nullptr && size <= pin_limit_) {
    pinned = size;
    region = pinned_ + size > pin_limit_
                 ? Result<MemoryRegion>{Error{Errc::limit_reached, 0, "verbs: btl_verbs_pin_limit", pin_limit_}}
                 : pin(base, size, access, writable);
    if (!region) {
      if (auto removed = table_.remove(software); !removed) return removed.error();
      return region.error();
    }
  }
  if (*region != nullptr) {
    if (entries_.size() <= handle.software.slot) entries_.resize(handle.software.slot + std::size_t{1});
    handle.key = (*region)->rkey;
    handle.flags = wire::kHasKey | ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0 ? wire::kAtomics : 0);
    pinned_ += pinned;
    entries_[handle.software.slot] = {handle.software.generation, std::move(*region), pinned, 0, writable, false};
  }
  return MemoryHandle::from_bytes(bytes_of(handle));
}

Result<void> Memory::remove(const MemoryHandle& handle) {
  OPAL_TRY_ASSIGN(const wire::Handle decoded, decode_handle(handle));
  OPAL_TRY(table_.remove(software_part(decoded)));
  if (decoded.software.slot >= entries_.size()) return {};
  Entry& entry = entries_[decoded.software.slot];
  unpin(entry);
  entry = {};
  return {};
}

void Memory::unpin(Entry& entry) noexcept {
  pinned_ -= std::exchange(entry.pinned, 0);
  entry.region.reset();
}

void Memory::invalidate(const MemoryHandle& handle) noexcept {
  const auto decoded = decode_handle(handle);
  if (!decoded) return;
  table_.invalidate(software_part(*decoded));
  if ((decoded->flags & wire::kHasKey) != 0) stale_.add(decoded->software.slot);
}

void Memory::invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  if (const auto decoded = decode_handle(handle)) table_.invalidate_part(software_part(*decoded), gone);
}

void Memory::revoke(std::uint32_t slot) noexcept {
  if (slot >= entries_.size()) return;
  Entry& entry = entries_[slot];
  // The slot may hold a new registration already.
  if (entry.region == nullptr || table_.view().find(slot, entry.generation)) return;
  entry.stale = true;
  if (entry.users == 0) unpin(entry);
}

void Memory::revoke_stale() noexcept {
  const bool some_lost = stale_.take([this](std::uint32_t slot) { revoke(slot); });
  for (std::uint32_t slot = 0; some_lost && slot < entries_.size(); ++slot) revoke(slot);
}

void Memory::give_back(const LocalKey& key) noexcept {
  Entry& entry = entries_[key.slot_];
  if (entry.generation != key.generation_) return;  // deregistered meanwhile
  if (--entry.users == 0 && entry.stale) unpin(entry);
}

Memory::LocalKey Memory::find(const MemoryHandle& handle, const void* address, std::uint64_t size,
                              bool writing) noexcept {
  const auto decoded = decode_handle(handle);
  if (!decoded || decoded->software.slot >= entries_.size()) return {};
  Entry& entry = entries_[decoded->software.slot];
  if (entry.region == nullptr || entry.stale || entry.generation != decoded->software.generation) return {};
  const std::uint64_t offset =
      reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(entry.region->addr);
  if (offset > entry.region->length || size > entry.region->length - offset) return {};
  if (writing && !entry.writable) return {};
  ++entry.users;
  return {*this, decoded->software.slot, entry.generation, entry.region->lkey};
}

}  // namespace opal::btl::verbs
