// SPDX-License-Identifier: Apache-2.0
// Allocations of the driver double: device memory, managed memory, pinned host memory.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

constexpr std::size_t kAlignment = 512;  // of cuMemAlloc: several small allocations share a page

CUresult allocate_on_host(const Call& call, void** out, std::size_t size, Kind kind) {
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Block block;
  block.base = reinterpret_cast<std::uintptr_t>(address);
  block.size = size;
  block.kind = kind;
  block.context = call.context_id();
  block.device = context->device;
  call->add_block(std::move(block));
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuMemAlloc(CUdeviceptr* out, size_t size) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Device& device = call->devices[static_cast<std::size_t>(context->device)];
  const std::uint64_t limit = call->setting(Setting::memory_limit);
  if (limit != 0 && (size > limit || device.used > limit - size)) return CUDA_ERROR_OUT_OF_MEMORY;
  Block block;
  block.store = Store::create(size);
  block.base = block.store != nullptr ? call->take_addresses(size, kAlignment) : 0;
  if (block.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  block.size = size;
  block.context = call.context_id();
  block.device = context->device;
  device.used += size;
  *out = call->add_block(std::move(block)).base;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned int /*flags*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  void* address = nullptr;
  const CUresult result = allocate_on_host(call, &address, size, Kind::managed);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUdeviceptr>(address);
  return result;
}

CUresult cuMemFree(CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (address == 0) return CUDA_SUCCESS;
  const auto found = call->blocks.find(address);
  if (found == call->blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  switch (found->second.kind) {
    case Kind::legacy:
    case Kind::managed:
    case Kind::pool:
    case Kind::pool_imported: break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  call->finish_all();
  call->remove_block(address);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  if (block == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block->base;
  if (size != nullptr) *size = block->size;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint64_t limit = call->setting(Setting::memory_limit);
  *total = limit != 0 ? limit : std::size_t{1} << 36;
  *free = *total - call->devices[static_cast<std::size_t>(context->device)].used;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** out, size_t size, unsigned int /*flags*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return allocate_on_host(call, out, size, Kind::host);
}

CUresult cuMemFreeHost(void* address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == call->blocks.end() || found->second.kind != Kind::host) return CUDA_ERROR_INVALID_VALUE;
  call->finish_all();
  call->remove_block(found->first);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* address, size_t size, unsigned int /*flags*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto base = reinterpret_cast<std::uintptr_t>(address);
  const auto after = call->blocks.lower_bound(base + size);
  if (after != call->blocks.begin()) {
    const Block& last = std::prev(after)->second;
    if (last.base + last.size > base) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  Block block;
  block.base = base;
  block.size = size;
  block.kind = Kind::registered;
  block.context = call.context_id();
  block.device = context->device;
  call->add_block(std::move(block));
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == call->blocks.end() || found->second.kind != Kind::registered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  call->finish_all();
  call->remove_block(found->first);
  return CUDA_SUCCESS;
}
