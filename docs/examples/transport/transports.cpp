// SPDX-License-Identifier: Apache-2.0
// What the conformance suite runs over: this project's transport alone.
#include "tests/harness/transports.hpp"

#include "unix_transport.hpp"

namespace opal::test {

const btl::Registry& all_transports() {
  static const btl::Registry registry = [] {
    btl::Registry own;
    own.add(example::kUnixComponent);
    return own;
  }();
  return registry;
}

}  // namespace opal::test
