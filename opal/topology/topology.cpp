// SPDX-License-Identifier: Apache-2.0
#include "opal/topology/topology.hpp"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include "opal/core/text.hpp"
#include "opal/topology/locality.hpp"

namespace opal::topology {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

hwloc_obj_type_t object_type(Shared shared) noexcept {
  switch (shared) {
    case Shared::host: return HWLOC_OBJ_MACHINE;
    case Shared::package: return HWLOC_OBJ_PACKAGE;
    case Shared::numa_node: return HWLOC_OBJ_NUMANODE;
    case Shared::l3_cache: return HWLOC_OBJ_L3CACHE;
    case Shared::l2_cache: return HWLOC_OBJ_L2CACHE;
    case Shared::core: return HWLOC_OBJ_CORE;
  }
  return HWLOC_OBJ_MACHINE;
}

/// The processors the calling thread may run on.
Bitmap binding_of_this_thread(hwloc_topology_t topology) {
  Bitmap bound{hwloc_bitmap_alloc()};
  if (bound == nullptr) return bound;
  if (hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(bound.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  return bound;
}

/// The objects of `type` that contain any of `cpus`, by logical index.
Bitmap objects_with(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t cpus) {
  Bitmap indexes{hwloc_bitmap_alloc()};
  if (indexes == nullptr) return indexes;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    if (hwloc_bitmap_intersects(object->cpuset, cpus) != 0) hwloc_bitmap_set(indexes.get(), object->logical_index);
  }
  return indexes;
}

/// One cpu_set_t per object of that type with a usable processor.
std::vector<cpu_set_t> usable_objects(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t usable) {
  std::vector<cpu_set_t> objects;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    const Bitmap both{hwloc_bitmap_alloc()};
    if (both == nullptr) return {};
    hwloc_bitmap_and(both.get(), object->cpuset, usable);
    cpu_set_t cpus;
    if (hwloc_bitmap_iszero(both.get()) != 0) continue;
    if (hwloc_cpuset_to_glibc_sched_affinity(topology, both.get(), &cpus, sizeof cpus) == 0) objects.push_back(cpus);
  }
  return objects;
}

/// Hosts that tell no cores have one per hardware thread.
std::vector<cpu_set_t> usable_cores(hwloc_topology_t topology, hwloc_const_bitmap_t usable) {
  std::vector<cpu_set_t> cores = usable_objects(topology, HWLOC_OBJ_CORE, usable);
  return cores.empty() ? usable_objects(topology, HWLOC_OBJ_PU, usable) : cores;
}

std::string read_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

/// The tightest processor quota of this process's cgroup (v2) and the ones above it.
std::optional<double> cpu_quota() {
  std::string group;
  const std::string own = read_file("/proc/self/cgroup");
  for (const std::string_view line : split(own, '\n')) {
    if (line.starts_with("0::/")) group = line.substr(3);
  }
  std::optional<double> quota;
  for (;;) {
    if (const std::optional<double> here = parse_cpu_max(read_file("/sys/fs/cgroup" + group + "/cpu.max"))) {
      quota = std::min(quota.value_or(*here), *here);
    }
    if (group.empty()) return quota;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

void Topology::Free::operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }

Topology::Topology(std::unique_ptr<hwloc_topology, Free> topology, std::vector<cpu_set_t> cores) noexcept
    : topology_(std::move(topology)), cores_(std::move(cores)) {}
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::~Topology() = default;

Result<Topology> Topology::open() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{Errc::no_memory, errno, "hwloc_topology_init"};
  std::unique_ptr<hwloc_topology, Free> topology{raw};
  // Devices take longer to discover than all the rest; and hwloc would bind this thread to one processor after the
  // other to ask each about itself, which waits for whoever runs there, though the kernel has told it all.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (hwloc_topology_load(raw) != 0) return Error{Errc::os, errno, "hwloc_topology_load"};
  const Bitmap usable = binding_of_this_thread(raw);
  if (usable == nullptr) return Error{Errc::no_memory, ENOMEM, "hwloc_bitmap_alloc"};
  std::vector<cpu_set_t> cores = usable_cores(raw, usable.get());
  if (cores.empty()) return Error{Errc::os, 0, "hwloc found no core this process may use"};
  return Topology{std::move(topology), std::move(cores)};
}

std::size_t Topology::thread_count() const noexcept {
  std::size_t count = 0;
  for (const cpu_set_t& core : cores_) count += static_cast<std::size_t>(CPU_COUNT(&core));
  return count;
}

std::size_t Topology::effective_core_count() const {
  const std::optional<double> quota = cpu_quota();
  if (!quota) return core_count();
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(*quota)), 1, core_count());
}

Result<cpu_set_t> Topology::cpus_of_core(std::size_t index) const {
  if (index >= cores_.size()) return Error{Errc::invalid_argument, 0, "no such usable core", index};
  return cores_[index];
}

std::vector<cpu_set_t> Topology::cpus_of(Shared level) const {
  const Bitmap usable = binding_of_this_thread(topology_.get());
  if (usable == nullptr) return {};
  return usable_objects(topology_.get(), object_type(level), usable.get());
}

Result<void> Topology::bind(pid_t pid, std::size_t index) const {
  OPAL_TRY_ASSIGN(const cpu_set_t cpus, cpus_of_core(index));
  if (::sched_setaffinity(pid, sizeof cpus, &cpus) != 0) {
    const int cause = errno;
    return Error{cause == EPERM ? Errc::permission : Errc::os, cause, "sched_setaffinity", index};
  }
  return {};
}

std::string Topology::locality() const {
  std::string text;
  const Bitmap bound = binding_of_this_thread(topology_.get());
  if (bound == nullptr) return text;
  for (const LocalityPart& part : kLocalityParts) {
    const Bitmap indexes = objects_with(topology_.get(), object_type(part.shared), bound.get());
    if (indexes == nullptr || hwloc_bitmap_iszero(indexes.get()) != 0) continue;
    std::array<char, 4096> list{};
    hwloc_bitmap_list_snprintf(list.data(), list.size(), indexes.get());
    if (!text.empty()) text += ':';
    text += part.prefix;
    text += list.data();
  }
  return text;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  double quota = 0;
  double period = 0;
  const auto [after_quota, bad_quota] = std::from_chars(text.data(), text.data() + text.size(), quota);
  if (bad_quota != std::errc{} || after_quota == text.data() + text.size() || *after_quota != ' ') return std::nullopt;
  const auto [end, bad_period] = std::from_chars(after_quota + 1, text.data() + text.size(), period);
  if (bad_period != std::errc{} || !(quota > 0) || !(period > 0) || !std::isfinite(quota / period)) return std::nullopt;
  return quota / period;
}

}  // namespace opal::topology
