// SPDX-License-Identifier: Apache-2.0
// tests/harness/transports.hpp — the transports that tests run over.
#pragma once
#include "opal/btl/registry.hpp"

namespace opal::test {

/// In this tree: those of libopal, with ofi over a provider that needs no device, and the simulated fabric
/// (transports.cpp).  A project that runs the installed
/// conformance suite defines this function and returns its own.
const btl::Registry& all_transports();

}  // namespace opal::test
