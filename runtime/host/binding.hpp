// SPDX-License-Identifier: Apache-2.0
// runtime/host/binding.hpp — which rank of a host runs on which of its processors.  Pure functions over what
// opal/topology found.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "opal/topology/topology.hpp"
#include "runtime/core_names.hpp"
#include "runtime/options/options.hpp"

namespace runtime::launch {

using opal::topology::Cpus;

/// The objects of each Level that this process may run on; at least one of each: levels that a host does not tell are
/// taken for one object with everything in it.
struct Domains {
  std::vector<Cpus> of[kLevels];
  [[nodiscard]] const std::vector<Cpus>& operator[](Level level) const noexcept {
    return of[static_cast<std::size_t>(level)];
  }
};

/// Discovers this host with what hwloc has built in: its plugins are for devices, and bring X11 and OpenCL along, whose
/// loading takes longer than all the rest of a launch.  Nor does libpmix load them as long as the result lives.
/// While there is one thread only: it changes the environment for a while.  Errors: as Topology::open().
Result<opal::topology::Topology> discover_host();

Domains usable_domains(const opal::topology::Topology& topology);

/// For each of `ranks` of a host the processors it is bound to; empty when it is not bound.
/// Mapped by an object, ranks go round the objects of that level, and round the finer ones within each; by slot or
/// node, they take one core after the other.  With more ranks than objects they share.  Not told how to bind, ranks are
/// bound to what they are mapped by; by slot or node, to a core if there are enough, else not at all.
std::vector<Cpus> bind_ranks(Map map, Bind bind, unsigned ranks, const Domains& domains);

/// "cpu 3", "cpus 0-3,8".
std::string to_string(const Cpus& cpus);

}  // namespace runtime::launch
