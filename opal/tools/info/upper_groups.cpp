// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "opal/core/build_info.hpp"
#include "opal/core/log.hpp"
#include "opal/tools/info/report.hpp"

namespace opal::tools::info {
namespace {

constexpr std::array kLibraries{"libopal_runtime.so." OPAL_SOVERSION, "libmpi_abi.so.1"};

/// The directory of libopal; the build tree and an installation have the libraries in the same one.
std::filesystem::path library_directory() {
  Dl_info libopal;
  if (::dladdr(reinterpret_cast<const void*>(&build_info), &libopal) == 0) return {};
  return std::filesystem::path(libopal.dli_fname).parent_path();
}

bool contains(const std::vector<const config::GroupInfo*>& groups, std::string_view name) {
  return std::any_of(groups.begin(), groups.end(), [&](const auto* group) { return group->name() == name; });
}

/// Loads a library by this program's run path, else from the directory of libopal.  AddressSanitizer intercepts
/// dlopen(), and the run path is lost then.
void* load(const char* library) {
  if (void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL)) return handle;
  return ::dlopen((library_directory() / library).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

std::vector<const config::GroupInfo*> upper_groups() {
  std::vector<const config::GroupInfo*> groups;
  for (const char* library : kLibraries) {
    void* handle = load(library);
    if (handle == nullptr) {
      log::debug("opal-info", "{}", ::dlerror());
      continue;
    }
    const auto list = reinterpret_cast<config::ListGroups>(::dlsym(handle, config::kListGroupsSymbol));
    if (list == nullptr) continue;
    std::size_t count = 0;
    const config::GroupInfo* const* const found = list(&count);
    // dlsym() also searches the dependencies of the library, so a group may be found twice.
    for (std::size_t i = 0; i < count; ++i) {
      if (!contains(groups, found[i]->name())) groups.push_back(found[i]);
    }
  }
  return groups;
}

}  // namespace opal::tools::info
