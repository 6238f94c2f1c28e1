// SPDX-License-Identifier: Apache-2.0
// Virtual-memory functions of the driver double: addresses, physical memory, and mappings of one to the other.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* /*prop*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr /*wish*/,
                             unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const bool good = size != 0 && size % kGranularity == 0 && (alignment == 0 || std::has_single_bit(alignment));
  if (!good || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uintptr_t base = call->take_addresses(size, std::max(alignment, kGranularity));
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = base;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto mapped = call->blocks.lower_bound(address);
  if (mapped != call->blocks.end() && mapped->first < address + size) return CUDA_ERROR_INVALID_VALUE;
  call->give_addresses(address);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const int device = prop->location.id;
  const bool good = size != 0 && size % kGranularity == 0 && flags == 0 &&
                    prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || static_cast<std::size_t>(device) >= call->devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  auto store = Store::create(size);
  if (store == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const Id id = call->new_id();
  call->physicals[id] = {std::move(store), *prop, 1, false};
  *out = id;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->physicals.find(handle);
  if (found == call->physicals.end() || found->second.references == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool is_mapped = std::any_of(call->blocks.begin(), call->blocks.end(),
                                     [&](const auto& entry) { return entry.second.store == found->second.store; });
  // Mappings keep the memory; cuMemRetainAllocationHandle finds it again.
  if (--found->second.references == 0 && !is_mapped) call->physicals.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto physical = call->physicals.find(handle);
  if (physical == call->physicals.end() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || size != physical->second.store->size()) return CUDA_ERROR_INVALID_VALUE;  // as today's drivers
  if (!call->is_device_address(address) || call->block_at(address) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  Block block;
  block.base = address;
  block.size = size;
  block.kind = Kind::mapped;
  block.device = physical->second.prop.location.id;
  block.store = physical->second.store;
  block.handle_types = static_cast<unsigned long long>(physical->second.prop.requestedHandleTypes);
  block.foreign = physical->second.imported;
  block.accessible = false;
  call->add_block(std::move(block));
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  call->finish_all();
  for (auto at = call->blocks.lower_bound(address); at != call->blocks.end() && at->first < address + size;) {
    if (at->second.kind != Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Store> store = at->second.store;
    const std::uintptr_t base = at->first;
    ++at;
    call->remove_block(base);
    std::erase_if(call->physicals,
                  [&](const auto& entry) { return entry.second.store == store && entry.second.references == 0; });
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t done = 0; done < size;) {
    Block* const block = call->block_at(address + done);
    if (block == nullptr || block->kind != Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
    block->accessible = access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    done += block->size;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(reinterpret_cast<std::uintptr_t>(address));
  if (block == nullptr || block->kind != Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [id, physical] : call->physicals) {
    if (physical.store != block->store) continue;
    ++physical.references;
    *out = id;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->physicals.find(handle);
  if (found == call->physicals.end()) return CUDA_ERROR_INVALID_VALUE;
  *prop = found->second.prop;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->physicals.find(handle);
  if (found == call->physicals.end() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((found->second.prop.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(found->second.store->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

/// The dma-buf is the file of the memory; its position is where the range begins (verbs_double::Region).  A range that
/// several allocations share is not supported.
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (address % page != 0 || size == 0 || size % page != 0) return CUDA_ERROR_INVALID_VALUE;
  const Block* const block = call->block_at(address);
  const auto next = call->blocks.upper_bound(address);
  if (block == nullptr || block->on_host() || block->kind == Kind::managed || block->store == nullptr ||
      address + size > (block->base + block->size + page - 1) / page * page ||
      (next != call->blocks.end() && next->first < address + size)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(block->store->fd());
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  (void)::lseek(fd, static_cast<off_t>(block->offset + (address - block->base)), SEEK_SET);
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

/// What the descriptor does not say, the device, is the first one of the importer: enough for one device in a test.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                        CUmemAllocationHandleType type) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto store = Store::adopt(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)));
  if (store == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = type;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = 0;
  const Id id = call->new_id();
  call->physicals[id] = {std::move(store), prop, 1, true};
  *out = id;
  return CUDA_SUCCESS;
}
