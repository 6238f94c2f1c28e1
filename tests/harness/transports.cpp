// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/transports.hpp"

#include "opal/btl/sim/component.hpp"

namespace opal::test {

const btl::Registry& all_transports() {
  static const btl::Registry registry = [] {
    btl::Registry all = btl::Registry::with_builtins();
    all.add(btl::sim::component());
    return all;
  }();
  return registry;
}

}  // namespace opal::test
