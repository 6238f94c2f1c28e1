// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/memory.hpp"

#include <cerrno>

#include "opal/core/log.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/gpu/sharing/dma_buf.hpp"

namespace opal::btl::verbs {
namespace {

/// ibv_device_attr::vendor_id of the devices with the driver mlx5.  Linux has two drivers with on-demand paging, and
/// that of rxe moves wrong bytes (seen with Linux 7.3).
constexpr std::uint32_t kNvidia = 0x02c9;

OnDemand find_on_demand(const Device& device, std::string_view wanted) {
  OnDemand found;
  if (wanted == "no") return found;
  ibv_device_attr_ex attributes{};
  constexpr std::uint32_t kNeeded = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  const bool offered = ibv_query_device_ex(device.context(), nullptr, &attributes) == 0 &&
                       (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                       (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
  if (!offered) {
    if (wanted == "yes")
      log::warn("btl.verbs", "device {} offers no on-demand paging: memory is pinned", device.name());
    return found;
  }
  if (wanted == "auto" && device.attributes().vendor_id != kNvidia) {
    log::info("btl.verbs", "device {}: on-demand paging is not used, because it may move wrong bytes: vendor {:#x}",
              device.name(), device.attributes().vendor_id);
    return found;
  }
  found.regions = true;
  if ((attributes.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0) {
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;  // ibv_reg_mr is a macro
    found.everything.reset(ibv_reg_mr(device.domain(), nullptr, SIZE_MAX, access));
  }
  return found;
}

}  // namespace

Memory::Memory(Device& device, std::string_view on_demand, RegistrationTable& table, std::uint64_t pin_limit,
               bool device_atomics)
    : DeviceMemory(table),
      device_(device),
      on_demand_(find_on_demand(device, on_demand)),
      pin_limit_(pin_limit),
      device_atomics_(device_atomics) {}

Result<MemoryRegion> Memory::pin(void* base, std::uint64_t size, int access, bool& writable) const noexcept {
  const bool written_by_peers = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  // The data of a get need no order, since PCIe writes their completion after them.  A peer's put has no completion
  // here: a program may wait for the last byte, and finds the others then.
  if (!written_by_peers) access |= IBV_ACCESS_RELAXED_ORDERING;
  // Writable memory is registered for writing in any case, since the next use may be a get.
  MemoryRegion region{ibv_reg_mr(device_.domain(), base, size, access | IBV_ACCESS_LOCAL_WRITE)};
  writable = region != nullptr;
  if (region == nullptr && errno == EFAULT && !written_by_peers) {
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

MemoryRegion Memory::map_gpu(const void* base, std::uint64_t size, int access) const noexcept {
  const auto exported = gpu::export_dma_buf(base, size);
  MemoryRegion region;
  if (exported) {
    region.reset(ibv_reg_dmabuf_mr(device_.domain(), exported->offset, size, reinterpret_cast<std::uint64_t>(base),
                                   exported->file.get(), access | IBV_ACCESS_LOCAL_WRITE));
  }
  if (region == nullptr) {
    log::once(log::Level::info, "btl.verbs gpu", "btl.verbs", "GPU memory is reached by messages: {}",
              to_string(exported ? device_error(errno, "ibv_reg_dmabuf_mr", size) : exported.error()));
  }
  return region;
}

Result<MemoryHandle> Memory::add(void* base, std::uint64_t size, Rights rights) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, table_.add(base, size, rights));
  DeviceHandle handle{};
  OPAL_TRY_ASSIGN(handle.software, SoftwareHandle::decode(software));
  if (size == 0) return handle.encode();
  const bool on_gpu = !gpu::is_host(base);
  int access = 0;
  if (includes(rights, Rights::remote_read)) access |= IBV_ACCESS_REMOTE_READ;
  if (includes(rights, Rights::remote_write)) access |= IBV_ACCESS_REMOTE_WRITE;
  if (includes(rights, Rights::remote_atomic) && device_atomics_ && !on_gpu) access |= IBV_ACCESS_REMOTE_ATOMIC;
  Result<MemoryRegion> region = on_gpu ? map_gpu(base, size, access) : map_on_demand(base, size, access);
  bool writable = *region != nullptr;
  const bool pins = *region == nullptr && !on_gpu && size <= pin_limit_;
  if (pins) {
    region = pinned() + size > pin_limit_
                 ? Result<MemoryRegion>{Error{Errc::limit_reached, 0, "verbs: btl_verbs_pin_limit", pin_limit_}}
                 : pin(base, size, access, writable);
    if (!region) {
      if (auto removed = table_.remove(software); !removed) return removed.error();
      return region.error();
    }
  }
  if (*region != nullptr) {
    const std::uint32_t key = (*region)->lkey;
    handle.key = (*region)->rkey;
    handle.flags = DeviceHandle::kHasKey | DeviceHandle::kVirtualAddress;
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) handle.flags |= DeviceHandle::kAtomics;
    keep(handle.software, std::move(*region), key, writable, pins);
  }
  return handle.encode();
}

}  // namespace opal::btl::verbs
