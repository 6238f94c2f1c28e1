// SPDX-License-Identifier: Apache-2.0
// opal/gpu/cuda_api.hpp — the part of the CUDA Driver API that OPAL uses, declared here and in driver_functions.def, so
// that the build needs no CUDA toolkit.  Source: the public documentation of the Driver API, interface of CUDA 13.0;
// names and values are NVIDIA's. tests/gpu/cuda_api_check.cpp compares each declaration with cuda.h where the toolkit
// is installed. The driver is loaded at run time (driver.cpp): libopal calls these functions by pointers and does not
// link them. Do not include it beside cuda.h.
#pragma once
#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's

using cuuint64_t = std::uint64_t;
using CUdeviceptr = unsigned long long;
using CUdevice = int;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

/// Results.  A driver returns values that are not listed here, too.
enum CUresult : unsigned int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_ALREADY_MAPPED = 208,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_TOO_MANY_PEERS = 711,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
};

enum CUmemorytype : unsigned int { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_UNIFIED = 4 };

enum CUpointer_attribute : unsigned int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
  CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
};

enum CUdevice_attribute : unsigned int {
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
  CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
  CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,
};
enum CUGPUDirectRDMAWritesOrdering : int { CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100 };

enum CUdriverProcAddressQueryResult : unsigned int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};
enum CUdriverProcAddress_flags : unsigned int { CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1 };

enum CUstream_flags : unsigned int { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags : unsigned int { CU_EVENT_DISABLE_TIMING = 2 };
enum CUipcMem_flags : unsigned int { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };
inline constexpr unsigned int CU_MEMHOSTREGISTER_PORTABLE = 1;

enum CUmemAllocationType : unsigned int { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType : unsigned int { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
enum CUmemRangeHandleType : unsigned int { CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1 };
enum CUmemLocationType : unsigned int { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum CUmemAccess_flags : unsigned int { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };

struct CUuuid {
  char bytes[16];
};
struct CUipcMemHandle {
  char reserved[64];
};
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char allocFlags[8];  ///< of devices that compress memory, not used here
};
struct CUmemPoolPtrExportData {
  unsigned char reserved[64];
};
/// With CU_MEMORYTYPE_UNIFIED the addresses are srcDevice and dstDevice, for memory of any kind.
struct CUDA_MEMCPY2D {
  std::size_t srcXInBytes;
  std::size_t srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  struct CUarray_st* srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes;
  std::size_t dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  struct CUarray_st* dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes;
  std::size_t Height;
};

// The name of a function in the driver carries the version of its signature.
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuGetProcAddress cuGetProcAddress_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemcpy2DAsync cuMemcpy2DAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2

#ifndef OPAL_CUDA_API_CHECK  // tests/gpu/cuda_api_check.cpp declares them in a namespace
extern "C" {
#endif
#define OPAL_CUDA_FUNCTION(member, function, since, ...) CUresult function(__VA_ARGS__);
#include "opal/gpu/driver_functions.def"
#undef OPAL_CUDA_FUNCTION
CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status);
#ifndef OPAL_CUDA_API_CHECK
}
#endif
// NOLINTEND(readability-identifier-naming)
