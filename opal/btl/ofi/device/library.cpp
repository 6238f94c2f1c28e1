// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/device/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <cstdlib>

namespace opal::btl::ofi {
namespace {

constexpr const char* kName = "libfabric.so.1";

template <class Function>
void find(void* object, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(object, name));
  if (function == nullptr) missing += fmt::format(" {}", name);
}

Library load() {
  Library library;
  // ofi_rxm closes the queue pair of a connection first and then handles what it has received, such as returned
  // credits, with that queue pair: a crash (mended in libfabric on 2026-08-11).  A receive queue that all connections
  // share stays open; over tcp it is the default.
  ::setenv("FI_OFI_RXM_USE_SRX", "1", 0);
  void* const object = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    library.why = fmt::format("ofi: cannot load libfabric (package libfabric1): {}", ::dlerror());
    return library;
  }
  std::string missing;
  find(object, "fi_getinfo", library.getinfo, missing);
  find(object, "fi_freeinfo", library.freeinfo, missing);
  find(object, "fi_dupinfo", library.dupinfo, missing);
  find(object, "fi_fabric", library.fabric, missing);
  find(object, "fi_strerror", library.strerror, missing);
  library.loaded = missing.empty();
  if (!library.loaded) library.why = fmt::format("ofi: {} lacks{}", kName, missing);
  return library;
}

}  // namespace

const Library& library() noexcept {
  static const Library loaded = load();
  return loaded;
}

Error error_of(long result, const char* where) noexcept {
  const int code = static_cast<int>(-result);
  const auto detail = static_cast<std::uint64_t>(code);
  const int os_errno = code < FI_ERRNO_OFFSET ? code : 0;  // the others are libfabric's own
  switch (code) {
    case FI_ENOMEM: return {Errc::no_memory, os_errno, where, detail};
    case FI_ENOSPC:
    case FI_EMFILE: return {Errc::limit_reached, os_errno, where, detail};
    case FI_EPERM:
    case FI_EACCES: return {Errc::permission, os_errno, where, detail};
    case FI_EINVAL:
    case FI_EFAULT: return {Errc::invalid_argument, os_errno, where, detail};
    case FI_ENODATA:
    case FI_ENOSYS:
    case FI_EOPNOTSUPP: return {Errc::not_supported, os_errno, where, detail};
    case FI_EAGAIN:
    case FI_EBUSY: return {Errc::busy, os_errno, where, detail};
    default: return {Errc::os, os_errno, where, detail};
  }
}

}  // namespace opal::btl::ofi
