// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of the CUDA Driver API with cuda.h: values, layouts, and the shape of every function.
// All of it happens while compiling; the program only says whether there was a cuda.h.  Exit status 77: there was none.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#ifdef OPAL_HAS_CUDA_H
#include <cuda.h>

#include <type_traits>

// Macros there, declarations here.
constexpr unsigned int kTheirPortable = CU_MEMHOSTREGISTER_PORTABLE;
#undef CU_MEMHOSTREGISTER_PORTABLE
// cuda.h may choose another version of these for per-thread default streams.
#undef cuMemcpy2DAsync
#undef cuMemcpyDtoD
#undef cuMemcpyDtoDAsync
#undef cuMemcpyDtoH
#undef cuMemcpyDtoHAsync
#undef cuMemcpyHtoD
#undef cuMemcpyHtoDAsync
#undef cuMemsetD8

#pragma push_macro("CUDA_VERSION")
#undef CUDA_VERSION
namespace ours {  // the functions are only declared, so that a namespace does not change what is compared
#define OPAL_CUDA_API_CHECK
#include "opal/gpu/cuda_api.hpp"
#include "tests/gpu/cuda_test_api.hpp"
}  // namespace ours
#pragma pop_macro("CUDA_VERSION")

/// Two types are passed alike: the same class of parameter, the same size.  Pointers count as alike, as in C.
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
                       std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                           std::is_class_v<B>&& std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class A, class B>
constexpr bool same_shape = false;
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) constexpr bool same_shape<A (*)(As...), B (*)(Bs...)> = alike<A, B> &&
                                                                                                 (alike<As, Bs> &&
                                                                                                  ... && true);

static_assert(!same_shape<int (*)(int), int (*)(int*)>);  // the comparison can fail
static_assert(!same_shape<int (*)(int), int (*)(int, int)>);

#define OPAL_SAME_VALUE(name) static_assert(static_cast<long long>(::name) == static_cast<long long>(ours::name), #name)
#define OPAL_SAME_CALL(name) static_assert(same_shape<decltype(&::name), decltype(&ours::name)>, #name)
#define OPAL_SAME_FIELD(type, field) \
  static_assert(offsetof(::type, field) == offsetof(ours::type, field), #type "." #field)

OPAL_SAME_VALUE(CUDA_SUCCESS);
OPAL_SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
OPAL_SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
OPAL_SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
OPAL_SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
OPAL_SAME_VALUE(CUDA_ERROR_NO_DEVICE);
OPAL_SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
OPAL_SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
OPAL_SAME_VALUE(CUDA_ERROR_MAP_FAILED);
OPAL_SAME_VALUE(CUDA_ERROR_ALREADY_MAPPED);
OPAL_SAME_VALUE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
OPAL_SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
OPAL_SAME_VALUE(CUDA_ERROR_NOT_FOUND);
OPAL_SAME_VALUE(CUDA_ERROR_NOT_READY);
OPAL_SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
OPAL_SAME_VALUE(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
OPAL_SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
OPAL_SAME_VALUE(CUDA_ERROR_TOO_MANY_PEERS);
OPAL_SAME_VALUE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
OPAL_SAME_VALUE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
OPAL_SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
OPAL_SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
OPAL_SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
OPAL_SAME_VALUE(CU_MEMORYTYPE_HOST);
OPAL_SAME_VALUE(CU_MEMORYTYPE_DEVICE);
OPAL_SAME_VALUE(CU_MEMORYTYPE_UNIFIED);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_CONTEXT);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_MAPPED);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
OPAL_SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
OPAL_SAME_VALUE(CU_GET_PROC_ADDRESS_SUCCESS);
OPAL_SAME_VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
OPAL_SAME_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
OPAL_SAME_VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
OPAL_SAME_VALUE(CU_STREAM_DEFAULT);
OPAL_SAME_VALUE(CU_STREAM_NON_BLOCKING);
OPAL_SAME_VALUE(CU_EVENT_DISABLE_TIMING);
OPAL_SAME_VALUE(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kTheirPortable == ours::CU_MEMHOSTREGISTER_PORTABLE);
OPAL_SAME_VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
OPAL_SAME_VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
OPAL_SAME_VALUE(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
OPAL_SAME_VALUE(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
OPAL_SAME_VALUE(CU_MEM_LOCATION_TYPE_DEVICE);
OPAL_SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_INTEGRATED);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
OPAL_SAME_VALUE(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
OPAL_SAME_VALUE(CU_MEM_ATTACH_GLOBAL);

static_assert(alike<::CUdeviceptr, ours::CUdeviceptr> && alike<::CUuuid, ours::CUuuid>);
static_assert(alike<::CUipcMemHandle, ours::CUipcMemHandle>);
static_assert(alike<::CUmemPoolPtrExportData, ours::CUmemPoolPtrExportData>);
static_assert(alike<::CUmemAccessDesc, ours::CUmemAccessDesc>);
static_assert(alike<::CUmemAllocationProp, ours::CUmemAllocationProp>);
static_assert(alike<::CUmemPoolProps, ours::CUmemPoolProps>);
static_assert(alike<::CUDA_MEMCPY2D, ours::CUDA_MEMCPY2D>);
OPAL_SAME_FIELD(CUmemLocation, type);
OPAL_SAME_FIELD(CUmemLocation, id);
OPAL_SAME_FIELD(CUmemAccessDesc, location);
OPAL_SAME_FIELD(CUmemAccessDesc, flags);
OPAL_SAME_FIELD(CUmemAllocationProp, type);
OPAL_SAME_FIELD(CUmemAllocationProp, requestedHandleTypes);
OPAL_SAME_FIELD(CUmemAllocationProp, location);
OPAL_SAME_FIELD(CUmemPoolProps, allocType);
OPAL_SAME_FIELD(CUmemPoolProps, handleTypes);
OPAL_SAME_FIELD(CUmemPoolProps, location);
OPAL_SAME_FIELD(CUmemPoolProps, maxSize);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcXInBytes);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcY);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcMemoryType);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcHost);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcDevice);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcArray);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, srcPitch);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstXInBytes);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstY);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstMemoryType);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstHost);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstDevice);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstArray);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, dstPitch);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, WidthInBytes);
OPAL_SAME_FIELD(CUDA_MEMCPY2D, Height);

#if CUDA_VERSION >= 13000  // older headers give some names to older signatures
OPAL_SAME_CALL(cuCtxGetCurrent);
OPAL_SAME_CALL(cuCtxGetDevice);
OPAL_SAME_CALL(cuCtxPopCurrent);
OPAL_SAME_CALL(cuCtxPushCurrent);
OPAL_SAME_CALL(cuDeviceCanAccessPeer);
OPAL_SAME_CALL(cuDeviceGetCount);
OPAL_SAME_CALL(cuDeviceGetUuid);
OPAL_SAME_CALL(cuDevicePrimaryCtxGetState);
OPAL_SAME_CALL(cuDevicePrimaryCtxRelease);
OPAL_SAME_CALL(cuDevicePrimaryCtxRetain);
OPAL_SAME_CALL(cuDriverGetVersion);
OPAL_SAME_CALL(cuEventCreate);
OPAL_SAME_CALL(cuEventDestroy);
OPAL_SAME_CALL(cuEventQuery);
OPAL_SAME_CALL(cuEventRecord);
OPAL_SAME_CALL(cuGetProcAddress);
OPAL_SAME_CALL(cuIpcCloseMemHandle);
OPAL_SAME_CALL(cuIpcGetMemHandle);
OPAL_SAME_CALL(cuIpcOpenMemHandle);
OPAL_SAME_CALL(cuMemAddressFree);
OPAL_SAME_CALL(cuMemAddressReserve);
OPAL_SAME_CALL(cuMemExportToShareableHandle);
OPAL_SAME_CALL(cuMemFree);
OPAL_SAME_CALL(cuMemFreeHost);
OPAL_SAME_CALL(cuMemGetAddressRange);
OPAL_SAME_CALL(cuMemGetHandleForAddressRange);
OPAL_SAME_CALL(cuMemGetAllocationPropertiesFromHandle);
OPAL_SAME_CALL(cuMemHostAlloc);
OPAL_SAME_CALL(cuMemHostRegister);
OPAL_SAME_CALL(cuMemHostUnregister);
OPAL_SAME_CALL(cuMemImportFromShareableHandle);
OPAL_SAME_CALL(cuMemMap);
OPAL_SAME_CALL(cuMemPoolDestroy);
OPAL_SAME_CALL(cuMemPoolExportPointer);
OPAL_SAME_CALL(cuMemPoolExportToShareableHandle);
OPAL_SAME_CALL(cuMemPoolImportFromShareableHandle);
OPAL_SAME_CALL(cuMemPoolImportPointer);
OPAL_SAME_CALL(cuMemPoolSetAccess);
OPAL_SAME_CALL(cuMemRelease);
OPAL_SAME_CALL(cuMemRetainAllocationHandle);
OPAL_SAME_CALL(cuMemSetAccess);
OPAL_SAME_CALL(cuMemUnmap);
OPAL_SAME_CALL(cuMemcpy2DAsync);
OPAL_SAME_CALL(cuMemcpyAsync);
OPAL_SAME_CALL(cuPointerGetAttribute);
OPAL_SAME_CALL(cuPointerGetAttributes);
OPAL_SAME_CALL(cuPointerSetAttribute);
OPAL_SAME_CALL(cuStreamCreate);
OPAL_SAME_CALL(cuStreamDestroy);
OPAL_SAME_CALL(cuStreamQuery);
OPAL_SAME_CALL(cuCtxCreate);
OPAL_SAME_CALL(cuCtxDestroy);
OPAL_SAME_CALL(cuCtxEnablePeerAccess);
OPAL_SAME_CALL(cuCtxSetCurrent);
OPAL_SAME_CALL(cuCtxSynchronize);
OPAL_SAME_CALL(cuDeviceGet);
OPAL_SAME_CALL(cuDeviceGetAttribute);
OPAL_SAME_CALL(cuDeviceGetDefaultMemPool);
OPAL_SAME_CALL(cuDeviceGetName);
OPAL_SAME_CALL(cuDevicePrimaryCtxReset);
OPAL_SAME_CALL(cuEventSynchronize);
OPAL_SAME_CALL(cuGetErrorString);
OPAL_SAME_CALL(cuInit);
OPAL_SAME_CALL(cuMemAlloc);
OPAL_SAME_CALL(cuMemAllocAsync);
OPAL_SAME_CALL(cuMemAllocFromPoolAsync);
OPAL_SAME_CALL(cuMemAllocManaged);
OPAL_SAME_CALL(cuMemCreate);
OPAL_SAME_CALL(cuMemFreeAsync);
OPAL_SAME_CALL(cuMemGetAllocationGranularity);
OPAL_SAME_CALL(cuMemGetInfo);
OPAL_SAME_CALL(cuMemPoolCreate);
OPAL_SAME_CALL(cuMemcpy);
OPAL_SAME_CALL(cuMemcpyDtoD);
OPAL_SAME_CALL(cuMemcpyDtoDAsync);
OPAL_SAME_CALL(cuMemcpyDtoH);
OPAL_SAME_CALL(cuMemcpyDtoHAsync);
OPAL_SAME_CALL(cuMemcpyHtoD);
OPAL_SAME_CALL(cuMemcpyHtoDAsync);
OPAL_SAME_CALL(cuMemsetD8);
OPAL_SAME_CALL(cuStreamSynchronize);
OPAL_SAME_CALL(cuStreamWaitEvent);
#endif

int main() {
  std::puts("compared with cuda.h when this program was compiled");
  return 0;
}
#else
int main() {
  std::puts("needs cuda: no cuda.h here, so our declarations of the driver were not compared with it");
  return 77;
}
#endif
