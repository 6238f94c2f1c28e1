// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/listener.hpp — which device and address a module uses, and where peers reach it.
// The RDMA connection manager (librdmacm, kernel module rdma_ucm) finds the device: an identifier that is bound to an
// interface's address belongs to the RDMA device behind that interface, or to none.  It also chooses the GID, the one
// that stands for that address.
#pragma once
#include <cstddef>
#include <string>

#include "opal/btl/verbs/connections/address.hpp"
#include "opal/btl/verbs/device/objects.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

struct Listener {
  EventChannel channel;  ///< of this module's identifiers, not blocking; outlives them
  CmId id;               ///< listening
  std::string device;    ///< its name
  SocketAddress socket{};

  /// Listens at an address, link-local ones left out, of device number `rail` (from 0) among the devices with an
  /// address.  `devices`: allowed names, comma-separated, in this order; empty: all, as order_of() says.
  /// Errors: unreachable (not so many devices; the log has what there is), not_supported (no RDMA connection manager),
  /// os.
  static Result<Listener> open(const std::string& devices, std::size_t rail);
};

/// Whether there is any RDMA device and an RDMA connection manager; says what is missing.  Opens nothing.
Result<void> devices_present() noexcept;

}  // namespace opal::btl::verbs
