// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/component.hpp — the simulated fabric as a transport, for am::Options::registry:
//
//   btl::Registry registry = btl::Registry::with_builtins();
//   registry.add(btl::sim::component());
//
// A Context of that registry plugs a device into the fabric of the name btl_sim_fabric: one that the program drives
// (Fabric::drive), or one that progress() drives.
#pragma once
#include "opal/btl/component.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sim {

OPAL_EXPORT const Component& component() noexcept;

}  // namespace opal::btl::sim
