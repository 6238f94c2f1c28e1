// SPDX-License-Identifier: Apache-2.0
// opal/topology/topology.hpp — the cores of this host that this process may use, and what they share.
// Owns: one hwloc topology, discovered by open() (milliseconds: once per process is enough).
// Threads: a Topology is immutable after open(); const members are safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

struct hwloc_topology;

namespace opal::topology {

/// What processors of one host can share.
enum class Shared : std::uint8_t { package, numa_node, l3_cache, l2_cache, core };

/// The operating system's numbers of hardware threads, ascending; any number of them.
using Cpus = std::vector<std::uint32_t>;

class OPAL_EXPORT Topology {
 public:
  /// Discovers this host's processors, memory and caches, not its devices.  The calling thread stays where it is.
  /// Errors: os, no_memory.
  static Result<Topology> open();

  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;
  ~Topology();

  /// Cores that this process may run on (affinity and cgroup cpuset), at least 1.
  [[nodiscard]] std::size_t core_count() const noexcept { return cores_.size(); }

  /// The hardware threads of usable core `index`.  Errors: invalid_argument when index >= core_count().
  [[nodiscard]] Result<Cpus> cpus_of_core(std::size_t index) const;

  /// The usable hardware threads of each package, NUMA node, cache or core that has any; empty where the host tells
  /// none.
  [[nodiscard]] std::vector<Cpus> cpus_of(Shared level) const;

  /// hwloc's own handle, for libraries that take one; only to be read, and not after this is gone.
  [[nodiscard]] hwloc_topology* native() const noexcept { return topology_.get(); }

 private:
  struct Free {
    void operator()(hwloc_topology* topology) const noexcept;
  };
  Topology(std::unique_ptr<hwloc_topology, Free> topology, std::vector<Cpus> cores) noexcept;

  std::unique_ptr<hwloc_topology, Free> topology_;
  std::vector<Cpus> cores_;
};

}  // namespace opal::topology
