// SPDX-License-Identifier: Apache-2.0
// How the driver double's functions are found, and the names of its errors.
#include <array>
#include <cstring>
#include <string_view>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

/// A function by the name without version, and the CUDA version that brought the one of cuda.h.
struct EntryPoint {
  std::string_view name;
  void* function;
  int since;
};

template <class Function>
EntryPoint entry(std::string_view name, Function* function, int since) {
  return {name, reinterpret_cast<void*>(function), since};
}

const auto& entry_points() {
  static const std::array list{
      entry("cuInit", &cuInit, 2000),
      entry("cuDriverGetVersion", &cuDriverGetVersion, 2020),
      entry("cuGetErrorString", &cuGetErrorString, 6000),
      entry("cuDeviceGetCount", &cuDeviceGetCount, 2000),
      entry("cuDeviceGet", &cuDeviceGet, 2000),
      entry("cuDeviceGetName", &cuDeviceGetName, 2000),
      entry("cuDeviceGetUuid", &cuDeviceGetUuid, 11040),
      entry("cuDeviceGetAttribute", &cuDeviceGetAttribute, 2000),
      entry("cuDeviceCanAccessPeer", &cuDeviceCanAccessPeer, 4000),
      entry("cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain, 7000),
      entry("cuDevicePrimaryCtxRelease", &cuDevicePrimaryCtxRelease, 11000),
      entry("cuDevicePrimaryCtxReset", &cuDevicePrimaryCtxReset, 11000),
      entry("cuDevicePrimaryCtxGetState", &cuDevicePrimaryCtxGetState, 7000),
      entry("cuCtxCreate", &cuCtxCreate, 12050),
      entry("cuCtxDestroy", &cuCtxDestroy, 4000),
      entry("cuCtxPushCurrent", &cuCtxPushCurrent, 4000),
      entry("cuCtxPopCurrent", &cuCtxPopCurrent, 4000),
      entry("cuCtxSetCurrent", &cuCtxSetCurrent, 4000),
      entry("cuCtxGetCurrent", &cuCtxGetCurrent, 4000),
      entry("cuCtxGetDevice", &cuCtxGetDevice, 2000),
      entry("cuCtxSynchronize", &cuCtxSynchronize, 2000),
      entry("cuCtxEnablePeerAccess", &cuCtxEnablePeerAccess, 4000),
      entry("cuMemAlloc", &cuMemAlloc, 3020),
      entry("cuMemAllocManaged", &cuMemAllocManaged, 6000),
      entry("cuMemFree", &cuMemFree, 3020),
      entry("cuMemGetAddressRange", &cuMemGetAddressRange, 3020),
      entry("cuMemGetHandleForAddressRange", &cuMemGetHandleForAddressRange, 11070),
      entry("cuMemGetInfo", &cuMemGetInfo, 3020),
      entry("cuMemHostAlloc", &cuMemHostAlloc, 2020),
      entry("cuMemFreeHost", &cuMemFreeHost, 2000),
      entry("cuMemHostRegister", &cuMemHostRegister, 6050),
      entry("cuMemHostUnregister", &cuMemHostUnregister, 4000),
      entry("cuPointerGetAttribute", &cuPointerGetAttribute, 4000),
      entry("cuPointerGetAttributes", &cuPointerGetAttributes, 7000),
      entry("cuPointerSetAttribute", &cuPointerSetAttribute, 6000),
      entry("cuIpcGetMemHandle", &cuIpcGetMemHandle, 4010),
      entry("cuIpcOpenMemHandle", &cuIpcOpenMemHandle, 11000),
      entry("cuIpcCloseMemHandle", &cuIpcCloseMemHandle, 4010),
      entry("cuMemcpy", &cuMemcpy, 4000),
      entry("cuMemcpyHtoD", &cuMemcpyHtoD, 3020),
      entry("cuMemcpyDtoH", &cuMemcpyDtoH, 3020),
      entry("cuMemcpyDtoD", &cuMemcpyDtoD, 3020),
      entry("cuMemcpyAsync", &cuMemcpyAsync, 4000),
      entry("cuMemcpy2DAsync", &cuMemcpy2DAsync, 3020),
      entry("cuMemcpyHtoDAsync", &cuMemcpyHtoDAsync, 3020),
      entry("cuMemcpyDtoHAsync", &cuMemcpyDtoHAsync, 3020),
      entry("cuMemcpyDtoDAsync", &cuMemcpyDtoDAsync, 3020),
      entry("cuMemsetD8", &cuMemsetD8, 3020),
      entry("cuStreamCreate", &cuStreamCreate, 2000),
      entry("cuStreamDestroy", &cuStreamDestroy, 4000),
      entry("cuStreamQuery", &cuStreamQuery, 2000),
      entry("cuStreamSynchronize", &cuStreamSynchronize, 2000),
      entry("cuStreamWaitEvent", &cuStreamWaitEvent, 3020),
      entry("cuEventCreate", &cuEventCreate, 2000),
      entry("cuEventRecord", &cuEventRecord, 2000),
      entry("cuEventQuery", &cuEventQuery, 2000),
      entry("cuEventSynchronize", &cuEventSynchronize, 2000),
      entry("cuEventDestroy", &cuEventDestroy, 4000),
      entry("cuMemGetAllocationGranularity", &cuMemGetAllocationGranularity, 10020),
      entry("cuMemAddressReserve", &cuMemAddressReserve, 10020),
      entry("cuMemAddressFree", &cuMemAddressFree, 10020),
      entry("cuMemCreate", &cuMemCreate, 10020),
      entry("cuMemRelease", &cuMemRelease, 10020),
      entry("cuMemMap", &cuMemMap, 10020),
      entry("cuMemUnmap", &cuMemUnmap, 10020),
      entry("cuMemSetAccess", &cuMemSetAccess, 10020),
      entry("cuMemRetainAllocationHandle", &cuMemRetainAllocationHandle, 11000),
      entry("cuMemGetAllocationPropertiesFromHandle", &cuMemGetAllocationPropertiesFromHandle, 10020),
      entry("cuMemExportToShareableHandle", &cuMemExportToShareableHandle, 10020),
      entry("cuMemImportFromShareableHandle", &cuMemImportFromShareableHandle, 10020),
      entry("cuDeviceGetDefaultMemPool", &cuDeviceGetDefaultMemPool, 11020),
      entry("cuMemPoolCreate", &cuMemPoolCreate, 11020),
      entry("cuMemPoolDestroy", &cuMemPoolDestroy, 11020),
      entry("cuMemAllocAsync", &cuMemAllocAsync, 11020),
      entry("cuMemAllocFromPoolAsync", &cuMemAllocFromPoolAsync, 11020),
      entry("cuMemFreeAsync", &cuMemFreeAsync, 11020),
      entry("cuMemPoolSetAccess", &cuMemPoolSetAccess, 11020),
      entry("cuMemPoolExportToShareableHandle", &cuMemPoolExportToShareableHandle, 11020),
      entry("cuMemPoolImportFromShareableHandle", &cuMemPoolImportFromShareableHandle, 11020),
      entry("cuMemPoolExportPointer", &cuMemPoolExportPointer, 11020),
      entry("cuMemPoolImportPointer", &cuMemPoolImportPointer, 11020),
  };
  return list;
}

struct ErrorText {
  CUresult result;
  const char* name;
  const char* text;
};

constexpr std::array kErrors{
    ErrorText{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    ErrorText{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ErrorText{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ErrorText{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    ErrorText{CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    ErrorText{CUDA_ERROR_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    ErrorText{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
              "peer access is not supported between these two devices"},
    ErrorText{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ErrorText{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    ErrorText{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
              "part or all of the requested memory range is already mapped"},
    ErrorText{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
              "pointer does not correspond to a registered memory region"},
};

const ErrorText* text_of(CUresult result) {
  for (const ErrorText& error : kErrors) {
    if (error.result == result) return &error;
  }
  return nullptr;
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* const found = text_of(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t /*flags*/,
                          CUdriverProcAddressQueryResult* status) {
  const Call call{__func__, false};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (version > static_cast<int>(call->setting(Setting::api_version))) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  auto found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (const EntryPoint& candidate : entry_points()) {
    if (candidate.name != symbol) continue;
    found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (candidate.since > version) {
      found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;  // the double has only the functions of cuda.h
    } else {
      *function = candidate.function;
    }
  }
  if (status != nullptr) *status = found;
  return CUDA_SUCCESS;
}
