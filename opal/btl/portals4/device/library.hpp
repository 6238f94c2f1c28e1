// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/device/library.hpp — an implementation of Portals 4, loaded at run time.
// Threads: safe from any thread.
#pragma once
#include <portals4.h>

#include <string>

#include "opal/core/result.hpp"

namespace opal::btl::portals4 {

/// The functions of the library that the transport calls, by their names in portals4.h.
class Library {
  /// A symbol of the library; null: it lacks it.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const noexcept {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  Symbol find(const char* name);
  // Before the functions, whose initialisation uses them.
  void* object_;
  std::string missing_;

 public:
  /// `object`: of dlopen().
  explicit Library(void* object) : object_(object) {}
  /// The names of the functions that the library lacks, each after a space.
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

  decltype(&::PtlInit) init = find("PtlInit");
  decltype(&::PtlNIInit) ni_init = find("PtlNIInit");
  decltype(&::PtlGetPhysId) get_phys_id = find("PtlGetPhysId");
  decltype(&::PtlPTAlloc) pt_alloc = find("PtlPTAlloc");
  decltype(&::PtlPTFree) pt_free = find("PtlPTFree");
  decltype(&::PtlPTEnable) pt_enable = find("PtlPTEnable");
  decltype(&::PtlMDBind) md_bind = find("PtlMDBind");
  decltype(&::PtlMDRelease) md_release = find("PtlMDRelease");
  decltype(&::PtlMEAppend) me_append = find("PtlMEAppend");
  decltype(&::PtlMEUnlink) me_unlink = find("PtlMEUnlink");
  decltype(&::PtlEQAlloc) eq_alloc = find("PtlEQAlloc");
  decltype(&::PtlEQFree) eq_free = find("PtlEQFree");
  decltype(&::PtlEQGet) eq_get = find("PtlEQGet");
  decltype(&::PtlEQPoll) eq_poll = find("PtlEQPoll");
  decltype(&::PtlPut) put = find("PtlPut");
  decltype(&::PtlGet) get = find("PtlGet");
  decltype(&::PtlFetchAtomic) fetch_atomic = find("PtlFetchAtomic");
  decltype(&::PtlSwap) swap = find("PtlSwap");
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
