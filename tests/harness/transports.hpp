// SPDX-License-Identifier: Apache-2.0
// tests/harness/transports.hpp — the transports that tests run over.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "opal/btl/registry.hpp"

namespace opal::test {

/// In this tree: those of libopal, with ofi over a provider that needs no device, and the simulated fabric
/// (transports.cpp).  A project that runs the installed
/// conformance suite defines this function and returns its own.
const btl::Registry& all_transports();

/// The names of the usable ones that reach at least so far.  They are asked once in a process, since some open a device
/// for the answer; standard output says why one is left out.
inline std::vector<std::string> transports_reaching(btl::Reach reach) {
  static const auto usable = [] {
    std::vector<const btl::Component*> found;
    for (const btl::Component* component : all_transports().components()) {
      if (const auto answer = component->usable(config::Store{}); answer) {
        found.push_back(component);
      } else {
        std::printf("transport %.*s is left out: %s\n", static_cast<int>(component->name.size()),
                    component->name.data(), to_string(answer.error()).c_str());
      }
    }
    return found;
  }();
  std::vector<std::string> names;
  for (const btl::Component* component : usable) {
    if (component->reach >= reach) names.emplace_back(component->name);
  }
  return names;
}

}  // namespace opal::test
