// SPDX-License-Identifier: Apache-2.0
// What the driver double says about an address.
#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

template <class T>
CUresult store(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

/// `block` null: the address is none of the driver's, everything is zero.
CUresult attribute_of(const Machine& machine, const Block* block, CUpointer_attribute attribute, void* data) {
  const bool known = block != nullptr;
  const bool tells = known && machine.setting(Setting::unknown_kind) == 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return store(data, handle_of<CUcontext>(known ? block->context : 0));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store(data,
                   known ? static_cast<unsigned>(block->on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE) : 0U);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return store(data, static_cast<unsigned long long>(known ? block->buffer : 0));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return store(data, known && block->sync_memops ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return store(data, known && block->kind == Kind::managed ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store(data, known ? block->device : -2);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return store(data, tells && block->kind == Kind::legacy ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return store(data, reinterpret_cast<void*>(known ? block->base : 0));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return store(data, known ? block->size : std::size_t{0});
    case CU_POINTER_ATTRIBUTE_MAPPED: return store(data, known ? 1U : 0U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return store(data, static_cast<std::uint64_t>(tells && block->kind == Kind::mapped ? block->handle_types : 0));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return store(data, handle_of<CUmemoryPool>(tells ? block->pool : 0));
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(call.machine(), block, attribute, data);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult result = attribute_of(call.machine(), block, attributes[i], data[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Block* const block = call->block_at(address);
  if (block == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  // The real one takes it only for memory of cuMemAlloc and, with it, of the virtual-memory functions.
  if (block->kind != Kind::legacy && block->kind != Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
  block->sync_memops = *static_cast<const unsigned*>(value) != 0;
  return CUDA_SUCCESS;
}
