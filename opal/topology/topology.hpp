// SPDX-License-Identifier: Apache-2.0
// opal/topology/topology.hpp — the cores of this host that this process may use, binding to them, and where it runs.
// Owns: one hwloc topology, discovered by open() (milliseconds: once per process is enough).
// Threads: a Topology is immutable after open(); const members are safe from any thread.
#pragma once
#include <sched.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/topology/locality.hpp"

struct hwloc_topology;

namespace opal::topology {

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

  /// Hardware threads that this process may run on, at least core_count().
  [[nodiscard]] std::size_t thread_count() const noexcept;

  /// core_count(), or less when a cgroup grants less processor time than that: how many processes may spin at once.
  [[nodiscard]] std::size_t effective_core_count() const;

  /// The hardware threads of usable core `index` as sched_setaffinity(2) takes them, so that a forked child can bind
  /// itself without hwloc.  Errors: invalid_argument when index >= core_count().
  [[nodiscard]] Result<cpu_set_t> cpus_of_core(std::size_t index) const;

  /// The usable hardware threads of each package, NUMA node, cache or core that has any; empty where the host tells
  /// none.
  [[nodiscard]] std::vector<cpu_set_t> cpus_of(Shared level) const;

  /// Binds process `pid` (0 = the calling thread) to usable core `index`.  Errors: invalid_argument, permission, os.
  Result<void> bind(pid_t pid, std::size_t index) const;

  /// Where the calling thread may run: "SK0:NM0:L30:L20:CR2" (package, NUMA node, caches, cores; ranges as 0-3,5).
  /// Comparable between the processes of one host with nearest_shared() of locality.hpp.
  [[nodiscard]] std::string locality() const;

  /// hwloc's own handle, for libraries that take one; only to be read, and not after this is gone.
  [[nodiscard]] hwloc_topology* native() const noexcept { return topology_.get(); }

 private:
  struct Free {
    void operator()(hwloc_topology* topology) const noexcept;
  };
  Topology(std::unique_ptr<hwloc_topology, Free> topology, std::vector<cpu_set_t> cores) noexcept;

  std::unique_ptr<hwloc_topology, Free> topology_;
  std::vector<cpu_set_t> cores_;
};

/// Processors granted by the text of a cgroup's cpu.max ("150000 100000" is 1.5); nothing when it grants all or is bad.
OPAL_EXPORT std::optional<double> parse_cpu_max(std::string_view text);

}  // namespace opal::topology
