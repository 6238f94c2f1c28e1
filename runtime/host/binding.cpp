// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/binding.hpp"

#include <algorithm>
#include <cstdlib>

#include "opal/core/environment.hpp"
#include "runtime/host/messages.hpp"

namespace runtime::launch {
namespace {

/// Objects with the same processors are one: NUMA nodes of memory only are near those of another node.
void add_once(std::vector<Cpus>& objects, Cpus cpus) {
  if (std::ranges::find(objects, cpus) == objects.end()) objects.push_back(std::move(cpus));
}

/// The object with the first processor of `part`; `part` itself where the levels do not nest.
const Cpus& around(const Cpus& part, const std::vector<Cpus>& objects) {
  const auto object =
      std::ranges::find_if(objects, [&](const Cpus& each) { return std::ranges::binary_search(each, part.front()); });
  return object == objects.end() ? part : *object;
}

/// `parts` in the order in which ranks take them when they go round `objects`.
std::vector<Cpus> interleaved(const std::vector<Cpus>& parts, const std::vector<Cpus>& objects) {
  std::vector<std::vector<Cpus>> within(objects.size());
  for (const Cpus& part : parts) {
    const Cpus& object = around(part, objects);
    const auto place = std::ranges::find(objects, object);
    if (place != objects.end()) within[static_cast<std::size_t>(place - objects.begin())].push_back(part);
  }
  std::vector<Cpus> order;
  // Objects of unequal size: the smaller ones are gone round again, so that each object gets as many ranks.
  const auto most = std::ranges::max_element(within, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (std::size_t round = 0; round < most->size(); ++round) {
    for (const std::vector<Cpus>& own : within) {
      if (!own.empty()) order.push_back(own[round % own.size()]);
    }
  }
  return order;
}

}  // namespace

Result<opal::topology::Topology> discover_host() {
  constexpr char kWhere[] = "HWLOC_PLUGINS_PATH";
  if (opal::environment(kWhere)) return opal::topology::Topology::open();  // the user wants plugins
  ::setenv(kWhere, "/dev/null", 1);
  auto found = opal::topology::Topology::open();
  ::unsetenv(kWhere);  // ranks load what they want
  return found;
}

Domains usable_domains(const opal::topology::Topology& topology) {
  using opal::topology::Shared;
  Domains domains;
  const auto at = [&](Level level) -> std::vector<Cpus>& { return domains.of[static_cast<std::size_t>(level)]; };
  Cpus all;
  at(Level::core) = topology.cores();
  for (const Cpus& core : topology.cores()) {
    for (const std::uint32_t cpu : core) {
      at(Level::hwthread).push_back({cpu});
      all.push_back(cpu);
    }
  }
  std::ranges::sort(all);
  const std::pair<Level, Shared> others[] = {{Level::l2cache, Shared::l2_cache},
                                             {Level::l3cache, Shared::l3_cache},
                                             {Level::numa, Shared::numa_node},
                                             {Level::package, Shared::package}};
  for (const auto& [level, shared] : others) {
    for (const Cpus& cpus : topology.cpus_of(shared)) add_once(at(level), cpus);
    if (at(level).empty()) at(level).push_back(all);
  }
  return domains;
}

std::vector<Cpus> bind_ranks(Map map, Bind bind, unsigned ranks, const Domains& domains) {
  std::vector<Cpus> result(ranks);
  const std::optional<Level> mapped = level_of(map);
  std::optional<Level> bound = level_of(bind);
  if (bind == Bind::automatic) {
    bound = mapped;
    if (!mapped && ranks <= domains[Level::core].size()) bound = Level::core;
  }
  if (!bound || domains[Level::core].empty()) return result;
  const Level finest = std::min(*bound, mapped.value_or(Level::core));
  const std::vector<Cpus> order =
      mapped && *mapped > finest ? interleaved(domains[finest], domains[*mapped]) : domains[finest];
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const Cpus& part = order[rank % order.size()];
    result[rank] = *bound == finest ? part : around(part, domains[*bound]);
  }
  return result;
}

std::string to_string(const Cpus& cpus) { return list_numbers("cpu", cpus); }

}  // namespace runtime::launch
