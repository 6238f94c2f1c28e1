// SPDX-License-Identifier: Apache-2.0
// opal/gpu/driver.hpp — pointers to the used functions of the CUDA Driver API, in the library loaded at run time.
// Private to opal/gpu.
// Threads: constant after load_driver().
#pragma once
#include "opal/core/clock.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/cuda_api.hpp"
#include "opal/gpu/gpu.hpp"

namespace opal::gpu {

struct Driver {
#define OPAL_CUDA_FUNCTION(member, function, since, ...) \
  decltype(&::function) member = nullptr;  // NOLINT(bugprone-macro-parentheses): a declaration
#include "opal/gpu/driver_functions.def"
#undef OPAL_CUDA_FUNCTION
};

/// Loads the driver; start() calls it once.
Status load_driver(const Config& config);

/// An address as the driver's functions take it, of memory of any kind.
inline CUdeviceptr device_pointer(const void* address) noexcept { return reinterpret_cast<CUdeviceptr>(address); }

/// The loaded driver.  Requires: active().
const Driver& driver() noexcept;

/// The Error for `result`, which is not CUDA_SUCCESS; `where` names the function, detail is the CUresult.
///   busy: already mapped.  no_memory: no memory, of the device or for a mapping.  limit_reached: too many peers.
///   not_supported: not initialised, no device, no access between the devices, not for this memory.
///   invalid_argument: an argument is invalid, or its object was destroyed.  os: all other results.
Error error_of(CUresult result, const char* where) noexcept;

/// Success for CUDA_SUCCESS, else error_of().
inline Result<void> check(CUresult result, const char* where) noexcept {
  if (result == CUDA_SUCCESS) return {};
  return error_of(result, where);
}

/// Waits until all work in the stream is done.  Errors: timed_out, those of cuStreamQuery.
Result<void> wait_for(CUstream stream, Deadline deadline = Deadline::never()) noexcept;

/// Checks that `size` bytes from `address` are mapped: the mapping of a peer's memory may be smaller than the size that
/// the peer sent.  Success also if the driver cannot report the range of the mapping.  Errors: protocol (smaller).
Result<void> check_range(CUdeviceptr address, std::uint64_t size) noexcept;

}  // namespace opal::gpu
