// SPDX-License-Identifier: Apache-2.0
// Handles by which a process maps device memory of another one.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

constexpr std::uint64_t kMagic = 0x4c41504f45445543;

/// What the double writes into a CUipcMemHandle.
struct Handle {
  std::uint64_t magic;
  std::uint64_t serial;  ///< of the store
  std::uint64_t base;
  std::uint64_t size;
  std::int32_t pid;
  std::int32_t fd;
  CUuuid uuid;
  std::uint64_t padding;
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

/// The ordinal here of the device with this UUID; -1: this process does not see it.
int ordinal_of(const Machine& machine, const CUuuid& uuid) {
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    if (std::memcmp(&machine.devices[i].uuid, &uuid, sizeof(uuid)) == 0) return static_cast<int>(i);
  }
  return -1;
}

std::uint64_t opened(const Machine& machine) {
  return static_cast<std::uint64_t>(std::count_if(machine.blocks.begin(), machine.blocks.end(), [](const auto& entry) {
    return entry.second.kind == Kind::imported;
  }));
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  if (block == nullptr || block->kind != Kind::legacy) return CUDA_ERROR_INVALID_VALUE;
  Handle handle{kMagic,
                block->store->serial(),
                block->base,
                block->size,
                ::getpid(),
                block->store->fd(),
                call->devices[static_cast<std::size_t>(block->device)].uuid,
                0};
  std::memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle in, unsigned int flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Handle handle{};
  std::memcpy(&handle, &in, sizeof(handle));
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != kMagic) return CUDA_ERROR_INVALID_VALUE;
  if (handle.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // only other processes open it

  for (auto& [base, block] : call->blocks) {
    if (block.kind != Kind::imported || block.owner != handle.pid) continue;
    const bool same = block.store->serial() == handle.serial;
    const bool overlaps = block.exporter < handle.base + handle.size && handle.base < block.exporter + block.size;
    if (overlaps && call->setting(Setting::already_mapped) != 0) return CUDA_ERROR_ALREADY_MAPPED;
    if (!same || block.context != call.context_id()) continue;
    ++block.opens;
    *out = base;
    return CUDA_SUCCESS;
  }
  const int device = ordinal_of(call.machine(), handle.uuid);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (device != context->device && !call->peer_access(context->device, device)) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  const std::uint64_t limit = call->setting(Setting::ipc_limit);
  if (limit != 0 && opened(call.machine()) >= limit) return CUDA_ERROR_OUT_OF_MEMORY;

  Block block;
  block.store = Store::open(handle.pid, handle.fd, handle.serial);
  if (block.store == nullptr) return CUDA_ERROR_MAP_FAILED;  // freed, or its process is gone
  block.base = call->take_addresses(handle.size, std::size_t{2} << 20);
  if (block.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  block.size = handle.size;
  block.kind = Kind::imported;
  block.context = call.context_id();
  block.device = device;
  block.opens = 1;
  block.exporter = handle.base;
  block.owner = handle.pid;
  *out = call->add_block(std::move(block)).base;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->blocks.find(address);
  if (found == call->blocks.end() || found->second.kind != Kind::imported) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.opens > 0) return CUDA_SUCCESS;
  call->finish_all();
  call->remove_block(address);
  return CUDA_SUCCESS;
}
