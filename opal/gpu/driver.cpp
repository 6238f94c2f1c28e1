// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace opal::gpu {
namespace {

Driver loaded;  // written once, before driver_loaded is set

using Find = decltype(&::cuGetProcAddress);

/// The names of the functions that the driver lacks.  All used functions exist since CUDA 12.0; a driver that lacks one
/// is not used.
std::string find_all(Driver& driver, Find find) {
  std::string missing;
#define OPAL_CUDA_FUNCTION(member, function, since, ...)                                                \
  {                                                                                                     \
    void* found = nullptr;                                                                              \
    const CUresult result = find(#function, &found, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr); \
    driver.member = reinterpret_cast<decltype(driver.member)>(found);                                   \
    if (result != CUDA_SUCCESS || found == nullptr) missing += " " #function;                           \
  }
#include "opal/gpu/driver_functions.def"
#undef OPAL_CUDA_FUNCTION
  return missing;
}

Status refused(std::string why) { return {.loaded = false, .driver_version = 0, .why = std::move(why)}; }

}  // namespace

const Driver& driver() noexcept { return loaded; }

Result<void> wait_for(CUstream stream, Deadline deadline) noexcept {
  for (;;) {
    const CUresult result = driver().stream_query(stream);
    if (result != CUDA_ERROR_NOT_READY) return check(result, "cuStreamQuery");
    if (deadline.expired()) return Error{Errc::timed_out, 0, "gpu: the stream is still at work"};
  }
}

Result<void> check_range(CUdeviceptr address, std::uint64_t size) noexcept {
  CUdeviceptr base = 0;
  std::size_t whole = 0;
  if (driver().memory_get_address_range(&base, &whole, address) != CUDA_SUCCESS) return {};
  if (address >= base && address - base <= whole && size <= whole - (address - base)) return {};
  return Error{Errc::protocol, 0, "gpu: the peer's allocation is smaller than it says", size};
}

Status load_driver(const Config& config) {
  // Never unloaded: the program may use it, and its threads would not survive that.
  void* const library = ::dlopen(config.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refused(fmt::format("no CUDA driver: {}", ::dlerror()));
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) return refused(fmt::format("{} is older than CUDA 12.0", config.library));
  if (const std::string missing = find_all(loaded, find); !missing.empty()) {
    return refused(fmt::format("{} lacks{}", config.library, missing));
  }
  int version = 0;
  if (loaded.driver_get_version(&version) != CUDA_SUCCESS) {
    return refused(fmt::format("{}: cuDriverGetVersion failed", config.library));
  }
  return {.loaded = true, .driver_version = version, .why = {}};
}

Error error_of(CUresult result, const char* where) noexcept {
  const auto detail = static_cast<std::uint64_t>(result);
  switch (result) {
    case CUDA_ERROR_ALREADY_MAPPED: return {Errc::busy, 0, where, detail};
    case CUDA_ERROR_OUT_OF_MEMORY: return {Errc::no_memory, 0, where, detail};
    case CUDA_ERROR_TOO_MANY_PEERS: return {Errc::limit_reached, 0, where, detail};
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_NOT_SUPPORTED: return {Errc::not_supported, 0, where, detail};
    case CUDA_ERROR_NOT_PERMITTED: return {Errc::permission, 0, where, detail};
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_NOT_FOUND: return {Errc::invalid_argument, 0, where, detail};
    default: return {Errc::os, 0, where, detail};
  }
}

}  // namespace opal::gpu
