// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/objects.hpp — owning pointers for objects of libibverbs and librdmacm.  Destroy them in the
// reverse order of creation.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <memory>

#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// Does nothing in a forked child, which shares the kernel's objects with its parent.  `InChild`: Destroy is called
/// there too, since it closes only the process's own descriptor.
template <auto Destroy, bool InChild = false>
struct Destroyer {
  pid_t owner = ::getpid();
  template <class T>
  void operator()(T* object) const noexcept {
    if (InChild || owner == ::getpid()) (void)Destroy(object);
  }
};

using DeviceContext = std::unique_ptr<ibv_context, Destroyer<&ibv_close_device, true>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<&ibv_dealloc_pd>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroyer<&ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<&ibv_destroy_cq>>;
using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroyer<&ibv_destroy_srq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroyer<&ibv_destroy_qp>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroyer<&ibv_dereg_mr>>;
using EventChannel = std::unique_ptr<rdma_event_channel, Destroyer<&rdma_destroy_event_channel, true>>;
using CmId = std::unique_ptr<rdma_cm_id, Destroyer<&rdma_destroy_id>>;

/// The Error for an errno `code` of a device.  limit_reached: may succeed after resources are released.
inline Error device_error(int code, const char* where, std::uint64_t detail = 0) noexcept {
  switch (code) {
    case ENOMEM:
    case EAGAIN:
    case ENOSPC: return {Errc::limit_reached, code, where, detail};
    case EPERM:
    case EACCES: return {Errc::permission, code, where, detail};
    case EFAULT: return {Errc::invalid_argument, code, where, detail};
    case ENODEV: return {Errc::not_supported, code, where, detail};
    default: return {Errc::os, code, where, detail};
  }
}
/// Success for code 0.
inline Result<void> check(int code, const char* where, std::uint64_t detail = 0) noexcept {
  return code == 0 ? Result<void>{} : device_error(code, where, detail);
}

}  // namespace opal::btl::verbs
