// SPDX-License-Identifier: Apache-2.0
// opal/topology/topology.hpp — the cores of this host that a process may use, and the caches and nodes that they share.
// Owns: one hwloc topology.  Cost of open(): milliseconds, so a process does it once.
// Threads: a Topology is immutable after open(); const members are safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

struct hwloc_topology;

namespace opal::topology {

/// A part of the hardware that several hardware threads share.
enum class Shared : std::uint8_t { package, numa_node, l3_cache, l2_cache };

/// A set of hardware threads: their numbers in the operating system, ascending.
using Cpus = std::vector<std::uint32_t>;

class OPAL_EXPORT Topology {
 public:
  /// Discovers this host's processors, memory and caches, not its devices.  It does not change the thread's binding.
  /// Errors: os, no_memory.
  static Result<Topology> open();

  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;
  ~Topology();

  /// The hardware threads of each core on which the thread that called open() was allowed to run (affinity, cgroup
  /// cpuset); at least one core.
  [[nodiscard]] const std::vector<Cpus>& cores() const noexcept { return cores_; }

  /// One entry per package, NUMA node or cache: the hardware threads of it on which the thread that calls
  /// cpus_of() may run at that time.  Parts without such threads are left out.  Empty if the host reports no such part,
  /// or memory is short.
  [[nodiscard]] std::vector<Cpus> cpus_of(Shared level) const;

  /// All hardware threads of the usable cores.
  [[nodiscard]] Cpus usable_cpus() const;

  /// How near two sets of hardware threads are: the depth, in the tree of hwloc, of the smallest part of the host that
  /// contains both.  A larger depth is nearer.  0: the whole host, a set without a hardware
  /// thread of this topology, or no memory.
  [[nodiscard]] std::size_t nearness(const Cpus& one, const Cpus& other) const;

  /// The handle of hwloc, for libraries that need one.  Do not change it.  Valid as long as this object.
  [[nodiscard]] hwloc_topology* native() const noexcept { return topology_.get(); }

 private:
  struct Free {
    void operator()(hwloc_topology* topology) const noexcept;
  };
  Topology(std::unique_ptr<hwloc_topology, Free> topology, std::vector<Cpus> cores) noexcept;

  std::unique_ptr<hwloc_topology, Free> topology_;
  std::vector<Cpus> cores_;
};

/// The hardware threads in a file of sysfs, as /sys/class/infiniband/mlx5_0/device/local_cpus.  Errors: os, no_memory.
OPAL_EXPORT Result<Cpus> read_cpus(const std::string& path);

}  // namespace opal::topology
