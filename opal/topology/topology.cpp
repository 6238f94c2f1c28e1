// SPDX-License-Identifier: Apache-2.0
#include "opal/topology/topology.hpp"

#include <hwloc.h>
#include <hwloc/linux.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace opal::topology {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

hwloc_obj_type_t object_type(Shared shared) noexcept {
  switch (shared) {
    case Shared::package: return HWLOC_OBJ_PACKAGE;
    case Shared::numa_node: return HWLOC_OBJ_NUMANODE;
    case Shared::l3_cache: return HWLOC_OBJ_L3CACHE;
    case Shared::l2_cache: return HWLOC_OBJ_L2CACHE;
  }
  return HWLOC_OBJ_MACHINE;
}

/// The hardware threads on which the calling thread may run; null if memory is short.
Bitmap binding_of_this_thread(hwloc_topology_t topology) {
  Bitmap bound{hwloc_bitmap_alloc()};
  if (bound == nullptr) return bound;
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(bound.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  return bound;
}

Cpus to_cpus(hwloc_const_bitmap_t bitmap) {
  Cpus cpus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) {
    cpus.push_back(static_cast<std::uint32_t>(cpu));
  }
  return cpus;
}

Bitmap to_bitmap(const Cpus& cpus) {
  Bitmap bitmap{hwloc_bitmap_alloc()};
  for (const std::uint32_t cpu : cpus) {
    if (bitmap == nullptr || hwloc_bitmap_set(bitmap.get(), cpu) != 0) return nullptr;
  }
  return bitmap;
}

/// The hardware threads in `usable` of each object of this type that has any.
std::vector<Cpus> usable_objects(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t usable) {
  std::vector<Cpus> objects;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    const Bitmap both{hwloc_bitmap_alloc()};
    if (both == nullptr) return {};
    hwloc_bitmap_and(both.get(), object->cpuset, usable);
    if (hwloc_bitmap_iszero(both.get()) == 0) objects.push_back(to_cpus(both.get()));
  }
  return objects;
}

/// The usable hardware threads of each core.  If hwloc reports no cores, each hardware thread counts as one.
std::vector<Cpus> usable_cores(hwloc_topology_t topology, hwloc_const_bitmap_t usable) {
  std::vector<Cpus> cores = usable_objects(topology, HWLOC_OBJ_CORE, usable);
  return cores.empty() ? usable_objects(topology, HWLOC_OBJ_PU, usable) : cores;
}

}  // namespace

void Topology::Free::operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }

Topology::Topology(std::unique_ptr<hwloc_topology, Free> topology, std::vector<Cpus> cores) noexcept
    : topology_(std::move(topology)), cores_(std::move(cores)) {}
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::~Topology() = default;

Result<Topology> Topology::open() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{Errc::no_memory, errno, "hwloc_topology_init"};
  std::unique_ptr<hwloc_topology, Free> topology{raw};
  // No devices: their discovery takes longer than all else.  No change of the binding: hwloc would bind this thread to
  // each processor in turn to execute CPUID there, and so wait for other processes; sysfs has the same data.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (hwloc_topology_load(raw) != 0) return Error{Errc::os, errno, "hwloc_topology_load"};
  const Bitmap usable = binding_of_this_thread(raw);
  if (usable == nullptr) return Error{Errc::no_memory, ENOMEM, "hwloc_bitmap_alloc"};
  std::vector<Cpus> cores = usable_cores(raw, usable.get());
  if (cores.empty()) return Error{Errc::os, 0, "hwloc found no core this process may use"};
  return Topology{std::move(topology), std::move(cores)};
}

std::vector<Cpus> Topology::cpus_of(Shared level) const {
  const Bitmap usable = binding_of_this_thread(topology_.get());
  if (usable == nullptr) return {};
  return usable_objects(topology_.get(), object_type(level), usable.get());
}

Cpus Topology::usable_cpus() const {
  Cpus all;
  for (const Cpus& core : cores_) all.insert(all.end(), core.begin(), core.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::size_t Topology::nearness(const Cpus& one, const Cpus& other) const {
  const Bitmap both = to_bitmap(one);
  const Bitmap second = to_bitmap(other);
  if (both == nullptr || second == nullptr) return 0;
  // hwloc does not know processors of the host that this process may not use.
  const hwloc_const_bitmap_t known = hwloc_topology_get_topology_cpuset(topology_.get());
  hwloc_bitmap_and(both.get(), both.get(), known);
  hwloc_bitmap_and(second.get(), second.get(), known);
  if (hwloc_bitmap_iszero(both.get()) != 0 || hwloc_bitmap_iszero(second.get()) != 0) return 0;
  hwloc_bitmap_or(both.get(), both.get(), second.get());
  const hwloc_obj_t part = hwloc_get_obj_covering_cpuset(topology_.get(), both.get());
  return part == nullptr ? 0 : static_cast<std::size_t>(part->depth);
}

Result<Cpus> read_cpus(const std::string& path) {
  const Bitmap bitmap{hwloc_bitmap_alloc()};
  if (bitmap == nullptr) return Error{Errc::no_memory, ENOMEM, "hwloc_bitmap_alloc"};
  if (hwloc_linux_read_path_as_cpumask(path.c_str(), bitmap.get()) != 0) {
    return Error{Errc::os, errno, "read(sysfs, processors)"};
  }
  return to_cpus(bitmap.get());
}

}  // namespace opal::topology
