// SPDX-License-Identifier: Apache-2.0
// opal/gpu/driver.hpp — the functions of the CUDA Driver API that are used here, found in the library that was loaded.
// Private to opal/gpu.
// Threads: a constant once loaded.
#pragma once
#include <chrono>

#include "opal/core/result.hpp"
#include "opal/gpu/cuda_api.hpp"
#include "opal/gpu/gpu.hpp"

namespace opal::gpu {

struct Driver {
#define OPAL_CUDA_FUNCTION(member, function, since) \
  decltype(&::function) member = nullptr;  // NOLINT(bugprone-macro-parentheses): a declaration
#include "opal/gpu/driver_functions.def"
#undef OPAL_CUDA_FUNCTION
};

/// Loads the driver; called once.
Status load_driver(const Config& config);

/// The loaded driver.  Only while active().
const Driver& driver() noexcept;

/// What `result`, not success, means to the caller; `where` names the function, detail is the CUresult.
///   busy: already mapped.  no_memory: no memory, of the device or for a mapping.  limit_reached: too many peers.
///   not_supported: not initialised, no device, no access between the devices, not for this memory.
///   invalid_argument: what was passed is not (any more) what the function wants.  os: the rest.
Error error_of(CUresult result, const char* where) noexcept;

/// The same for functions that may succeed.
inline Result<void> check(CUresult result, const char* where) noexcept {
  if (result == CUDA_SUCCESS) return {};
  return error_of(result, where);
}

/// Waits until everything in the stream is done.  Not by cuStreamSynchronize, which waits for ever for a device that
/// hangs.  Errors: timed_out (by then it was not), those of cuStreamQuery.
Result<void> wait_for(CUstream stream, std::chrono::milliseconds timeout) noexcept;

/// Whether `size` bytes from `address`, where a peer's memory was mapped, are mapped: the size is only the peer's word.
/// A driver that does not know the range of what it has mapped leaves it at that.  Errors: protocol.
Result<void> check_range(CUdeviceptr address, std::uint64_t size) noexcept;

}  // namespace opal::gpu
