// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/device/library.hpp — libfabric, loaded at run time.  All other functions of libfabric are inline calls
// through the objects that these return.  Threads: safe from any thread; constant after the first call.
#pragma once
#include <rdma/fabric.h>

#include <memory>
#include <string>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::ofi {

struct Library {
  bool loaded = false;
  std::string why;  ///< why it is not loaded
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
};

/// Loads libfabric.so.1 on the first call; never unloads it, since its providers may have threads.
OPAL_EXPORT const Library& library() noexcept;

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { library().freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// The Error for a negative result of libfabric; detail is the code without its sign.
///   no_memory, limit_reached (no space for another object), permission, invalid_argument, not_supported, busy;
///   os: all other codes.
Error error_of(long result, const char* where) noexcept;
/// Success if `result` is 0.
inline Result<void> check(long result, const char* where) noexcept {
  return result == 0 ? Result<void>{} : error_of(result, where);
}

}  // namespace opal::btl::ofi
