// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/binding.hpp"

#include <fmt/format.h>
#include <sched.h>

namespace runtime::launch {

std::vector<Cpus> usable_cores(const opal::topology::Topology& topology) {
  std::vector<Cpus> cores;
  for (std::size_t index = 0; index < topology.core_count(); ++index) {
    const opal::Result<cpu_set_t> set = topology.cpus_of_core(index);
    if (!set) continue;
    Cpus cpus;
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &*set)) cpus.push_back(cpu);
    }
    cores.push_back(std::move(cpus));
  }
  return cores;
}

std::vector<Cpus> bind_ranks(Bind bind, unsigned ranks, const std::vector<Cpus>& cores) {
  std::vector<Cpus> result(ranks);
  if (bind == Bind::none || cores.empty() || (bind == Bind::automatic && ranks > cores.size())) return result;
  for (unsigned rank = 0; rank < ranks; ++rank) result[rank] = cores[rank % cores.size()];
  return result;
}

std::string to_string(const Cpus& cpus) {
  std::string text = cpus.size() == 1 ? "cpu " : "cpus ";
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (i > 0) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace runtime::launch
