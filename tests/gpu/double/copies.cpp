// SPDX-License-Identifier: Apache-2.0
// Copies of the driver double, between addresses of any kind.
#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

/// Puts a copy into a stream.  As the documentation says of asynchronous copies: what comes from pageable memory is
/// read before this returns, and a copy to pageable memory is done when this returns.
CUresult copy_async(const Call& call, std::uintptr_t to, std::uintptr_t from, std::size_t size, CUstream handle) {
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Stream* const stream = call->stream_of(handle, call.context_id());
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  bool wait = false;
  while (size > 0) {
    auto target = call->place(to, size);
    auto source = target ? call->place(from, target->size) : std::nullopt;
    if (!source) return CUDA_ERROR_INVALID_VALUE;
    wait = wait || target->pageable;
    Operation operation;
    operation.size = source->size;
    if (source->pageable) operation.staged.assign(source->bytes, source->bytes + source->size);
    operation.to = std::move(*target);
    operation.from = std::move(*source);
    to += operation.size;
    from += operation.size;
    size -= operation.size;
    call->submit(*stream, std::move(operation));
  }
  if (wait) call->finish(*stream);
  return CUDA_SUCCESS;
}

/// Even cuMemcpy may return early within a device, and from pageable memory to a device (the bytes are staged, after
/// what is in the stream), unless the memory was marked CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
CUresult copy(const Call& call, std::uintptr_t to, std::uintptr_t from, std::size_t size) {
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Block* const target = call->block_at(to);
  const Block* const source = call->block_at(from);
  const bool to_device = target != nullptr && target->store != nullptr;
  const bool within = to_device && source != nullptr && source->store != nullptr;
  const bool from_pageable = to_device && source == nullptr;
  const bool marked = (target != nullptr && target->sync_memops) || (source != nullptr && source->sync_memops);
  if (from_pageable) call->finish(*call->stream_of(nullptr, call.context_id()));
  const CUresult result = copy_async(call, to, from, size, nullptr);
  if (result != CUDA_SUCCESS) return result;
  if (!(within || from_pageable) || marked) {
    call->finish(*call->stream_of(nullptr, call.context_id()));
  }
  return CUDA_SUCCESS;
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy(call, to, from, size);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy(call, to, address_of(from), size);
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy(call, address_of(to), from, size);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy(call, to, from, size);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy_async(call, to, from, size, stream);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy_async(call, to, address_of(from), size, stream);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy_async(call, address_of(to), from, size, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  const Call call{__func__};
  return call.refused() != CUDA_SUCCESS ? call.refused() : copy_async(call, to, from, size, stream);
}

/// Row by row.
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  constexpr std::size_t kMostPitch = (std::size_t{1} << 31) - 1;
  const bool good = copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED && copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED &&
                    copy->srcPitch >= copy->srcXInBytes + copy->WidthInBytes && copy->srcPitch <= kMostPitch &&
                    copy->dstPitch >= copy->dstXInBytes + copy->WidthInBytes && copy->dstPitch <= kMostPitch;
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t row = 0; row < copy->Height; ++row) {
    const std::uintptr_t to = copy->dstDevice + (copy->dstY + row) * copy->dstPitch + copy->dstXInBytes;
    const std::uintptr_t from = copy->srcDevice + (copy->srcY + row) * copy->srcPitch + copy->srcXInBytes;
    const CUresult result = copy_async(call, to, from, copy->WidthInBytes, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t size) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto target = call->place(address, size);
  if (!target || target->pageable || target->size < size) return CUDA_ERROR_INVALID_VALUE;
  Stream& stream = *call->stream_of(nullptr, call.context_id());
  Operation operation;
  operation.kind = Operation::Kind::fill;
  operation.to = std::move(*target);
  operation.size = size;
  operation.value = value;
  call->submit(stream, std::move(operation));
  if (call->block_at(address)->sync_memops) call->finish(stream);
  return CUDA_SUCCESS;
}
