// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/device/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "opal/core/text.hpp"

namespace opal::btl::portals4 {
namespace {

/// The numbers in portals4.h differ between implementations, so a library must be the one of the header.
#ifdef OPAL_PORTALS4_DOUBLE
constexpr bool kIsDouble = true;
#else
constexpr bool kIsDouble = false;
#endif
constexpr const char* kDoubleMark = "opal_portals4_double";  // a symbol that only the test double exports

}  // namespace

Result<Library> load_library(const std::string& name) {
  void* const object = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const std::string why = fmt::format("portals4: cannot load the library (btl_portals4_library): {}", ::dlerror());
    return Error{Errc::not_supported, 0, kept_for_ever(why)};
  }
  if ((::dlsym(object, kDoubleMark) != nullptr) != kIsDouble) {
    return Error{Errc::not_supported, 0,
                 kIsDouble ? "portals4: built with the header of the test double, which fits no other library"
                           : "portals4: the library is the test double, which fits its own header only"};
  }
  Library library{object};
  if (library.missing().empty()) return library;
  return Error{Errc::not_supported, 0, kept_for_ever(fmt::format("portals4: {} lacks{}", name, library.missing()))};
}

Library::Symbol Library::find(const char* name) {
  void* const address = ::dlsym(object_, name);
  if (address == nullptr) missing_ += fmt::format(" {}", name);
  return {address};
}

Error error_of(int result, const char* where) noexcept {
  const auto detail = static_cast<std::uint64_t>(result);
  switch (result) {
    case PTL_ARG_INVALID: return {Errc::invalid_argument, 0, where, detail};
    case PTL_NO_SPACE:
    case PTL_PT_FULL:
    case PTL_LIST_TOO_LONG: return {Errc::limit_reached, 0, where, detail};
    case PTL_IN_USE:
    case PTL_PT_IN_USE: return {Errc::busy, 0, where, detail};
    case PTL_NO_INIT: return {Errc::not_supported, 0, where, detail};
    default: return {Errc::os, 0, where, detail};
  }
}

}  // namespace opal::btl::portals4
