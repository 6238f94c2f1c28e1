// SPDX-License-Identifier: Apache-2.0
// Initialisation, devices and contexts of the driver double.
#include <unistd.h>

#include <cstring>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

Device* device_of(Machine& machine, CUdevice ordinal) {
  const bool good = ordinal >= 0 && static_cast<std::size_t>(ordinal) < machine.devices.size();
  return good ? &machine.devices[static_cast<std::size_t>(ordinal)] : nullptr;
}

Id make_context(Machine& machine, CUdevice ordinal, bool primary) {
  const Id id = machine.new_id();
  machine.contexts[id] = {.device = ordinal, .primary = primary, .peers = {}};
  return id;
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuInit(unsigned int flags) {
  const Call call{__func__, false};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (call->pid == ::getpid()) return CUDA_SUCCESS;
  if (call->pid != 0) return CUDA_ERROR_NOT_INITIALIZED;  // forked from a process that had initialised the driver
  call->make_devices();
  if (call->devices.empty()) return CUDA_ERROR_NO_DEVICE;
  call->pid = ::getpid();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  const Call call{__func__, false};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  *version = static_cast<int>(call->setting(Setting::api_version));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  *count = static_cast<int>(call->devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device_of(call.machine(), ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Device* const found = device_of(call.machine(), device);
  if (found == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(length), "Driver double %u", found->physical);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Device* const found = device_of(call.machine(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = found->uuid;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device_of(call.machine(), device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      *value = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      *value = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device_of(call.machine(), device) == nullptr || device_of(call.machine(), peer) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *can = call->peer_access(device, peer) ? 1 : 0;  // a device is no peer of itself
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Device* const found = device_of(call.machine(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->primary == 0) found->primary = make_context(call.machine(), device, true);
  ++found->retained;
  *context = handle_of<CUcontext>(found->primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Device* const found = device_of(call.machine(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--found->retained == 0) {
    call->forget_context(found->primary);
    found->primary = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Device* const found = device_of(call.machine(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->primary != 0) call->forget_context(found->primary);
  found->primary = 0;
  found->retained = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Device* const found = device_of(call.machine(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = found->primary != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams* /*parameters*/, unsigned int /*flags*/, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device_of(call.machine(), device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const Id id = make_context(call.machine(), device, false);
  context_stack().push_back(id);
  *context = handle_of<CUcontext>(id);
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->contexts.find(id_of(context));
  if (found == call->contexts.end() || found->second.primary) return CUDA_ERROR_INVALID_CONTEXT;
  call->forget_context(id_of(context));
  if (!context_stack().empty() && context_stack().back() == id_of(context)) context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!call->contexts.contains(id_of(context))) call.misuse("a destroyed context");
  context_stack().push_back(id_of(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = handle_of<CUcontext>(context_stack().back());
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (context != nullptr && !call->contexts.contains(id_of(context))) call.misuse("a destroyed context");
  if (!context_stack().empty()) context_stack().pop_back();
  if (context != nullptr) context_stack().push_back(id_of(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  *context = handle_of<CUcontext>(call.context_id());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* const context = call.context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  call->finish_all();
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Context* const context = call.context();
  const auto other = call->contexts.find(id_of(peer));
  if (context == nullptr || other == call->contexts.end()) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call->peer_access(context->device, other->second.device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return context->peers.insert(other->first).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}
