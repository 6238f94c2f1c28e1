// SPDX-License-Identifier: Apache-2.0
// runtime/host/binding.hpp — assigns processors of a host to its ranks.  All but discover_host() are pure functions.
#pragma once
#include <string>
#include <vector>

#include "opal/topology/topology.hpp"
#include "runtime/core_names.hpp"
#include "runtime/options/options.hpp"

namespace runtime::launch {

using opal::topology::Cpus;

/// The objects of each Level, reduced to the processors that this process may use.  A cache, NUMA or package level that
/// the host does not report has one object with all processors.
struct Domains {
  std::vector<Cpus> of[kLevels];
  [[nodiscard]] const std::vector<Cpus>& operator[](Level level) const noexcept {
    return of[static_cast<std::size_t>(level)];
  }
};

/// Discovers this host without hwloc's plugins, unless HWLOC_PLUGINS_PATH is set.  The plugins find devices; they load
/// X11 and OpenCL, which takes longer than all other steps of a launch.  While the result lives, libpmix does not load
/// them either.  Requires: the process has one thread, since the call changes the environment for a moment.
/// Errors: as Topology::open().
Result<opal::topology::Topology> discover_host();

Domains usable_domains(const opal::topology::Topology& topology);

/// For each of the `ranks` ranks of a host, in their order: the processors to bind it to; empty: not bound.
///  - Mapped by an object level: the ranks go round the objects of that level, and within each object round the objects
///    of the finer level that they are bound to.
///  - Mapped by slot or node: the ranks take one core after the other.
///  - More ranks than objects: the assignment starts again at the first object.
///  - Bind::automatic: the level of the mapping; by slot or node, a core if there is one for each rank, else no
///  binding.
std::vector<Cpus> bind_ranks(Map map, Bind bind, unsigned ranks, const Domains& domains);

/// "cpu 3", "cpus 0-3,8".
std::string to_string(const Cpus& cpus);

}  // namespace runtime::launch
