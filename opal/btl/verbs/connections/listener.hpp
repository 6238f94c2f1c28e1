// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/listener.hpp — which device and address a module uses, and where peers reach it.
// The connection manager tells: an identifier that is bound to an interface's address belongs to the RDMA device behind
// that interface, or to none.  It also chooses the GID, the one that stands for that address.
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

  /// Listens at an address, link-local ones left out, of the device that is number `rail` among those of `devices` that
  /// have one (names, separated by commas, in this order; empty: all, in the order of the interfaces).
  /// Errors: unreachable (there are not so many; says what there is), not_supported (no connection manager), os.
  static Result<Listener> open(const std::string& devices, std::size_t rail);
};

/// Whether there is any RDMA device and a connection manager; says what is missing.  Opens nothing.
Result<void> devices_present() noexcept;

}  // namespace opal::btl::verbs
