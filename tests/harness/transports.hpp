// SPDX-License-Identifier: Apache-2.0
// tests/harness/transports.hpp — the transports that tests run over: those of libopal and the simulated fabric.
#pragma once
#include "opal/btl/registry.hpp"
#include "opal/btl/sim/component.hpp"

namespace opal::test {

inline const btl::Registry& all_transports() {
  static const btl::Registry registry = [] {
    btl::Registry all = btl::Registry::with_builtins();
    all.add(btl::sim::component());
    return all;
  }();
  return registry;
}

}  // namespace opal::test
