// SPDX-License-Identifier: Apache-2.0
// tests/gpu/cuda_test_api.hpp — what tests and the driver double use of the CUDA Driver API beyond
// opal/gpu/cuda_api.hpp. Source and check: as there.
#pragma once
#include "opal/gpu/cuda_api.hpp"

/// The interface that these declarations and the double follow.
#define CUDA_VERSION 13000

enum CUmemAttach_flags : unsigned int { CU_MEM_ATTACH_GLOBAL = 1 };
enum CUmemAllocationGranularity_flags : unsigned int {};  ///< only zero is used: the least granularity

struct CUctxCreateParams;  ///< passed as null only

struct CUmemPoolProps {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

#define cuCtxCreate cuCtxCreate_v4
#define cuCtxDestroy cuCtxDestroy_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemcpyDtoD cuMemcpyDtoD_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemsetD8 cuMemsetD8_v2

#ifndef OPAL_CUDA_API_CHECK
extern "C" {
#endif
CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy(CUcontext context);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize();
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceGetName(char* name, int length, CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuEventSynchronize(CUevent event);
CUresult cuGetErrorString(CUresult error, const char** name);
CUresult cuInit(unsigned int flags);
CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size);
CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t size, CUmemoryPool pool, CUstream stream);
CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size, unsigned int flags);
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemFreeHost(void* address);
CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option);
CUresult cuMemGetInfo(std::size_t* free, std::size_t* total);
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t size);
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t size);
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream);
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size);
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream stream);
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t size);
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream stream);
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t size);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
#ifndef OPAL_CUDA_API_CHECK
}
#endif
