// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/memory/memory.hpp"

#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::btl::portals4 {

Result<MemoryHandle> Memory::add(void* base, std::uint64_t size, Rights rights) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, table_.add(base, size, rights));
  DeviceHandle handle{};
  OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
  const bool reads = includes(rights, Rights::remote_read);
  const bool writes = includes(rights, Rights::remote_write);
  if (size == 0 || (!reads && !writes) || !gpu::is_host(base)) return handle.encode();
  ptl_me_t entry{};
  entry.start = base;
  entry.length = size;
  entry.ct_handle = PTL_CT_NONE;
  entry.uid = PTL_UID_ANY;
  entry.options = (writes ? PTL_ME_OP_PUT : 0U) | (reads ? PTL_ME_OP_GET : 0U) | PTL_ME_NO_TRUNCATE |
                  PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE;
  entry.match_id.phys.nid = PTL_NID_ANY;
  entry.match_id.phys.pid = PTL_PID_ANY;
  entry.match_bits = random_u64();
  ptl_handle_me_t added = PTL_INVALID_HANDLE;
  const int result = interface_.library().me_append(interface_.handle(), objects_.memory_entry(), &entry,
                                                    PTL_PRIORITY_LIST, nullptr, &added);
  if (result != PTL_OK) {
    log::once(log::Level::info, "btl.portals4 register", "btl.portals4", "memory is reached by messages: {}",
              to_string(error_of(result, "PtlMEAppend")));
    return handle.encode();
  }
  handle.key = entry.match_bits;
  handle.flags = DeviceHandle::kHasKey;
  const bool coherent = (interface_.limits().features & PTL_COHERENT_ATOMICS) != 0;
  if (coherent && reads && writes && includes(rights, Rights::remote_atomic)) handle.flags |= DeviceHandle::kAtomics;
  if (entries_.size() <= handle.software.slot) {
    entries_.resize(handle.software.slot + std::size_t{1}, PTL_INVALID_HANDLE);
  }
  entries_[handle.software.slot] = added;
  return handle.encode();
}

void Memory::unlink(ptl_handle_me_t& entry) noexcept {
  if (entry == PTL_INVALID_HANDLE) return;
  if (const int result = interface_.unlink(entry); result != PTL_OK) {
    log::error("btl.portals4", "peers may still access memory that was deregistered: {}",
               to_string(error_of(result, "PtlMEUnlink")));
  }
  entry = PTL_INVALID_HANDLE;
}

void Memory::end(std::uint32_t slot) noexcept {
  if (slot < entries_.size()) unlink(entries_[slot]);
}

void Memory::invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  DeviceRegistrations::invalidate_part(handle, gone);
  const auto decoded = DeviceHandle::decode(handle);
  if (decoded && decoded->has_key()) stale_.add(decoded->software.slot);
}

void Memory::revoke_stale() noexcept {
  // A slot may hold a new registration already.  Its entry is unlinked too; messages do its puts and gets.
  if (stale_.take([this](std::uint32_t slot) { end(slot); })) unlink_all();  // true: some were lost
}

void Memory::unlink_all() noexcept {
  for (ptl_handle_me_t& entry : entries_) unlink(entry);
}

}  // namespace opal::btl::portals4
