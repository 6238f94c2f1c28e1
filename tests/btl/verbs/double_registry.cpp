// SPDX-License-Identifier: Apache-2.0
// The registry of programs that run over the device double: the verbs transport alone, which finds the double usable.
#include "opal/btl/registry.hpp"
#include "tests/harness/transports.hpp"

namespace opal::test {

const btl::Registry& all_transports() {
  static const btl::Component over_double = [] {
    btl::Component component = *btl::Registry::with_builtins().find("verbs");
    component.usable = [](const config::Store&) noexcept -> Result<void> { return {}; };
    component.reach = btl::Reach::process;
    return component;
  }();
  static const btl::Registry registry = [] {
    btl::Registry only;
    only.add(over_double);
    return only;
  }();
  return registry;
}

}  // namespace opal::test
