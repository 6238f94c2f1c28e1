// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/device/library.hpp — an implementation of Portals 4, loaded at run time.
// Threads: safe from any thread.
#pragma once
#include <portals4.h>

#include <string>

#include "opal/core/result.hpp"

namespace opal::btl::portals4 {

/// The functions of the library that the transport calls, by their names in portals4.h.
struct Library {
  decltype(&::PtlInit) init = nullptr;
  decltype(&::PtlNIInit) ni_init = nullptr;
  decltype(&::PtlGetPhysId) get_phys_id = nullptr;
  decltype(&::PtlPTAlloc) pt_alloc = nullptr;
  decltype(&::PtlPTFree) pt_free = nullptr;
  decltype(&::PtlPTEnable) pt_enable = nullptr;
  decltype(&::PtlMDBind) md_bind = nullptr;
  decltype(&::PtlMDRelease) md_release = nullptr;
  decltype(&::PtlMEAppend) me_append = nullptr;
  decltype(&::PtlMEUnlink) me_unlink = nullptr;
  decltype(&::PtlEQAlloc) eq_alloc = nullptr;
  decltype(&::PtlEQFree) eq_free = nullptr;
  decltype(&::PtlEQGet) eq_get = nullptr;
  decltype(&::PtlEQPoll) eq_poll = nullptr;
  decltype(&::PtlPut) put = nullptr;
  decltype(&::PtlGet) get = nullptr;
  decltype(&::PtlFetchAtomic) fetch_atomic = nullptr;
  decltype(&::PtlSwap) swap = nullptr;
};

/// Loads the library `name`.  Never unloads it, since it may have threads.
/// Errors: not_supported (it cannot be loaded, lacks a function, or does not fit the header of this build).
Result<Library> load_library(const std::string& name);

/// The Error for a result of Portals that is not PTL_OK; detail is the result.
Error error_of(int result, const char* where) noexcept;
/// Success if `result` is PTL_OK.
inline Result<void> check(int result, const char* where) noexcept {
  return result == PTL_OK ? Result<void>{} : error_of(result, where);
}

}  // namespace opal::btl::portals4
