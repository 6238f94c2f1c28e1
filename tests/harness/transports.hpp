// SPDX-License-Identifier: Apache-2.0
// tests/harness/transports.hpp — the transports that tests run over.
#pragma once
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "opal/btl/registry.hpp"

namespace opal::test {

/// In this tree: those of libopal, with ofi over a provider that needs no device, and the simulated fabric
/// (transports.cpp).  A project that runs the installed conformance suite defines this function and returns its own.
const btl::Registry& all_transports();

/// The transport of the one test that --gtest_filter names, as ctest does: "tcp" for "Over/Messages.Arrive/tcp".  Null:
/// the command line names no such test.
inline const btl::Component* only_transport() {
  constexpr std::string_view kOption = "--gtest_filter=";
  std::ifstream arguments{"/proc/self/cmdline"};
  for (std::string argument; std::getline(arguments, argument, '\0');) {
    if (!argument.starts_with(kOption) || argument.find_first_of("*?:-", kOption.size()) != std::string::npos) continue;
    return all_transports().find(argument.substr(argument.find_last_of("/=") + 1));
  }
  return nullptr;
}

/// The names of the usable ones that reach at least so far.  They are asked once in a process, and only the one that
/// the process needs, since some take long to answer: libfabric reads all symbols of the kernel.  Standard output says
/// why one is left out.
inline std::vector<std::string> transports_reaching(btl::Reach reach) {
  static const auto usable = [] {
    std::vector<const btl::Component*> found;
    const btl::Component* const only = only_transport();
    for (const btl::Component* component : all_transports().components()) {
      if (only != nullptr && component != only) continue;
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
