// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/device/objects.hpp — owners of libfabric's objects, which close them.  Threads: as the owner.
#pragma once
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <unistd.h>

#include <memory>

namespace opal::btl::ofi {

/// Does nothing in a forked child, where a close would change what the parent uses.
template <class Object>
struct CloseObject {
  pid_t owner = ::getpid();
  void operator()(Object* object) const noexcept {
    if (owner == ::getpid()) (void)fi_close(&object->fid);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, CloseObject<Object>>;
using MemoryRegion = Owned<fid_mr>;

/// The first member of everything that is posted; its address is the operation's context.  A provider with the mode
/// FI_CONTEXT or FI_CONTEXT2 uses `space` until the completion.
struct Operation {
  enum class Kind : std::uint8_t { receive, send, one_sided };
  explicit Operation(Kind of) noexcept : kind(of) {}
  fi_context2 space{};
  Kind kind;
};

}  // namespace opal::btl::ofi
