// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/memory/memory.hpp"

#include <rdma/fi_errno.h>

#include <cstddef>

#include "opal/btl/shared/registrations/memory_limits.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"

namespace opal::btl::ofi {
namespace {

constexpr int kTries = 8;  // random keys, in case one is in use

/// A random key of the provider's size.
std::uint64_t random_key(std::size_t bytes) noexcept {
  const std::uint64_t key = random_u64();
  return bytes >= sizeof key ? key : key & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

Memory::Memory(const Device& device, const FabricEndpoint& target, RegistrationTable& table)
    : device_(device),
      target_(target),
      table_(table),
      pin_limit_(device.needs(FI_MR_ALLOCATED) ? usable_memory() / 2 : UINT64_MAX) {}

Result<MemoryRegion> Memory::pin_as(void* base, std::uint64_t size, std::uint64_t access) const noexcept {
  long result = 0;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t key = device_.needs(FI_MR_PROV_KEY) ? 0 : random_key(device_.info().domain_attr->mr_key_size);
    fid_mr* made = nullptr;
    result = fi_mr_reg(device_.domain(), base, size, access, 0, key, 0, &made, nullptr);
    if (result == -FI_ENOKEY) continue;
    if (result != 0) break;
    MemoryRegion region{made};
    if (!device_.needs(FI_MR_ENDPOINT)) return region;
    result = fi_mr_bind(made, &target_.endpoint->fid, 0);
    if (result == 0) result = fi_mr_enable(made);
    if (result != 0) break;
    return region;
  }
  return error_of(result, "fi_mr_reg");
}

Result<MemoryRegion> Memory::pin(void* base, std::uint64_t size, std::uint64_t access, bool& writable) const noexcept {
  // Writable memory is registered for writing in any case, since the next use may be a get.
  auto region = pin_as(base, size, access | FI_READ | FI_WRITE);
  writable = region.has_value();
  if (!region && region.error().os_errno == FI_EFAULT && (access & FI_REMOTE_WRITE) == 0) {
    region = pin_as(base, size, access | FI_WRITE);  // FI_WRITE: the source of puts
  }
  return region;
}

Result<MemoryHandle> Memory::add(void* base, std::uint64_t size, Rights rights) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, table_.add(base, size, rights));
  rdm::wire::Handle handle{};
  OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
  if (size == 0) return rdm::encode_handle(handle);
  std::uint64_t access = 0;
  if (includes(rights, Rights::remote_read)) access |= FI_REMOTE_READ;
  if (includes(rights, Rights::remote_write)) access |= FI_REMOTE_WRITE;
  bool writable = false;
  auto region = size <= pin_limit_ - pinned_ ? pin(base, size, access, writable)
                                             : Error{Errc::limit_reached, 0, "ofi: half of the memory is pinned", size};
  if (!region) {
    log::once(log::Level::info, "btl.ofi register", "btl.ofi", "memory is reached by messages: {}",
              to_string(region.error()));
    return rdm::encode_handle(handle);
  }
  handle.key = fi_mr_key(region->get());
  if (handle.key == FI_KEY_NOTAVAIL) return rdm::encode_handle(handle);  // the region ends here
  handle.flags = rdm::wire::kHasKey | (device_.needs(FI_MR_VIRT_ADDR) ? rdm::wire::kVirtualAddress : 0);
  if (entries_.size() <= handle.software.slot) entries_.resize(handle.software.slot + std::size_t{1});
  entries_[handle.software.slot] = {
      handle.software.generation, handle.software.base, size, std::move(*region), 0, writable, false};
  pinned_ += size;
  return rdm::encode_handle(handle);
}

Result<void> Memory::remove(const MemoryHandle& handle) {
  OPAL_TRY_ASSIGN(const rdm::wire::Handle decoded, rdm::decode_handle(handle));
  OPAL_TRY(table_.remove(rdm::software_part(decoded)));
  if (decoded.software.slot < entries_.size()) {
    unpin(entries_[decoded.software.slot]);
    entries_[decoded.software.slot] = {};
  }
  return {};
}

void Memory::unpin(Entry& entry) noexcept {
  if (entry.region == nullptr) return;
  entry.region.reset();
  pinned_ -= entry.size;
}

void Memory::invalidate(const MemoryHandle& handle) noexcept {
  const auto decoded = rdm::decode_handle(handle);
  if (!decoded) return;
  table_.invalidate(rdm::software_part(*decoded));
  if ((decoded->flags & rdm::wire::kHasKey) != 0) stale_.add(decoded->software.slot);
}

void Memory::invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  if (const auto decoded = rdm::decode_handle(handle)) table_.invalidate_part(rdm::software_part(*decoded), gone);
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

void Memory::give_back(const Local& local) noexcept {
  Entry& entry = entries_[local.slot_];
  if (entry.generation != local.generation_) return;  // deregistered meanwhile
  if (--entry.users == 0 && entry.stale) unpin(entry);
}

Memory::Local Memory::find(const MemoryHandle& handle, const void* address, std::uint64_t size, bool writing) noexcept {
  const auto decoded = rdm::decode_handle(handle);
  if (!decoded || decoded->software.slot >= entries_.size()) return {};
  Entry& entry = entries_[decoded->software.slot];
  if (entry.region == nullptr || entry.stale || entry.generation != decoded->software.generation) return {};
  const std::uint64_t offset = reinterpret_cast<std::uint64_t>(address) - entry.base;
  if (offset > entry.size || size > entry.size - offset) return {};
  if (writing && !entry.writable) return {};
  ++entry.users;
  return {*this, decoded->software.slot, entry.generation, fi_mr_desc(entry.region.get())};
}

}  // namespace opal::btl::ofi
