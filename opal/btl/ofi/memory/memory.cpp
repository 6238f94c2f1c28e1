// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/memory/memory.hpp"

#include <rdma/fi_errno.h>

#include <cstddef>

#include "opal/btl/shared/registrations/memory_limits.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"
#include "opal/gpu/memory.hpp"

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
    : DeviceMemory(table),
      device_(device),
      target_(target),
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
  DeviceHandle handle{};
  OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
  if (size == 0 || !gpu::is_host(base)) return handle.encode();  // the fabric is opened without FI_HMEM
  std::uint64_t access = 0;
  if (includes(rights, Rights::remote_read)) access |= FI_REMOTE_READ;
  if (includes(rights, Rights::remote_write)) access |= FI_REMOTE_WRITE;
  bool writable = false;
  auto region = size <= pin_limit_ - pinned()
                    ? pin(base, size, access, writable)
                    : Error{Errc::limit_reached, 0, "ofi: half of the memory is pinned", size};
  if (!region) {
    log::once(log::Level::info, "btl.ofi register", "btl.ofi", "memory is reached by messages: {}",
              to_string(region.error()));
    return handle.encode();
  }
  handle.key = fi_mr_key(region->get());
  if (handle.key == FI_KEY_NOTAVAIL) return handle.encode();  // the region ends here
  handle.flags = DeviceHandle::kHasKey | (device_.needs(FI_MR_VIRT_ADDR) ? DeviceHandle::kVirtualAddress : 0);
  void* const descriptor = fi_mr_desc(region->get());
  keep(handle.software, std::move(*region), descriptor, writable, true);
  return handle.encode();
}

}  // namespace opal::btl::ofi
