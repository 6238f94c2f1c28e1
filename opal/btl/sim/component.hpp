// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/component.hpp — the simulated fabric as a transport, for am::Options::registry:
//
//   btl::Registry registry = btl::Registry::with_builtins();
//   registry.add(btl::sim::component());
//
// A Context with that registry opens a device on the fabric that btl_sim_fabric names.  The program drives that fabric
// (Fabric::drive), or, if there is none of that name, progress() does.  Not among the built-in transports.
#pragma once
#include "opal/btl/component.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sim {

OPAL_EXPORT const Component& component() noexcept;

}  // namespace opal::btl::sim
