// SPDX-License-Identifier: Apache-2.0
// runtime/launch/binding.hpp — which rank runs on which core.  Pure functions over what opal/topology found.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "opal/topology/topology.hpp"
#include "runtime/launch/options.hpp"

namespace runtime::launch {

using Cpus = std::vector<std::uint32_t>;  ///< operating system numbers of hardware threads

/// One entry per core that this process may run on.
std::vector<Cpus> usable_cores(const opal::topology::Topology& topology);

/// For each of `ranks` the processors it is bound to; empty when it is not bound.  With fewer cores than ranks, `core`
/// deals the cores out in turn and `automatic` does not bind.
std::vector<Cpus> bind_ranks(Bind bind, unsigned ranks, const std::vector<Cpus>& cores);

/// "cpu 3", "cpus 0-3,8".
std::string to_string(const Cpus& cpus);

}  // namespace runtime::launch
