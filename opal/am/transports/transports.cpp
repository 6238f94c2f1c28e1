// SPDX-License-Identifier: Apache-2.0
#include "opal/am/transports/transports.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "opal/core/log.hpp"
#include "opal/core/text.hpp"

namespace opal::am {
namespace {

/// A transport of Open MPI that OPAL does not have.  The reasons are in docs/design/removed-transports.md.
struct Removed {
  std::string_view name;     // as in Open MPI's `--mca btl NAME`
  std::string_view instead;  // the end of the sentence "NAME is not part of OPAL; ..."
};

constexpr Removed kRemoved[] = {
    {"mx", "Myrinet is no longer made; its cards in Ethernet mode are reached by tcp"},
    {"openib", "its hardware (InfiniBand, RoCE, iWARP) is reached by verbs"},
    {"scif", "its coprocessor (Xeon Phi, Knights Corner) is no longer made; processes of one host are reached by sm"},
    {"udapl", "its hardware (InfiniBand, RoCE, iWARP) is reached by verbs"},
    {"ugni", "Gemini and Aries are reached by tcp, their successor Slingshot by ofi"},
    {"usnic",
     "its hardware (Cisco VIC) is an Ethernet adapter and is reached by tcp, or by ofi if libfabric has a provider for "
     "it"},
    {"vader", "it is called sm now"},
};

}  // namespace

std::string why_unknown(std::string_view name, const btl::Registry& registry) {
  for (const Removed& removed : kRemoved) {
    if (removed.name == name) return fmt::format("{} is not part of OPAL; {}", name, removed.instead);
  }
  std::vector<std::string_view> known;
  for (const btl::Component* component : registry.components()) known.push_back(component->name);
  return fmt::format("no transport is called \"{}\"; there are: {}", name, fmt::join(known, ", "));
}

Result<TransportFilter> TransportFilter::parse(std::string_view list, const btl::Registry& registry) {
  TransportFilter filter;
  filter.exclude_ = list.empty() || list.front() == '^';
  if (!list.empty() && list.front() == '^') list.remove_prefix(1);
  for (const std::string_view name : elements(list, ',')) {
    if (registry.find(name) == nullptr) {
      return Error{Errc::invalid_argument, 0, kept_for_ever("am_transports: " + why_unknown(name, registry))};
    }
    filter.names_.emplace_back(name);
  }
  return filter;
}

bool TransportFilter::allows(const btl::Component& component) const {
  const bool named = std::ranges::find(names_, component.name) != names_.end();
  return named != exclude_;
}

Transports Transports::open(btl::ModuleParameters parameters, const config::Store& store, const btl::Registry& registry,
                            const TransportFilter& filter) {
  Transports result;
  for (const btl::Component* component : registry.components()) {
    if (!filter.allows(*component)) {
      result.refused.push_back({component->name, "not allowed by am_transports"});
      continue;
    }
    // smcuda reaches the peers of sm and names sm in `also`.  It has the higher exclusivity, so it is already open.
    const auto replaces_it = [&](const auto& module) { return module->attributes().also == component->name; };
    if (const auto other = std::ranges::find_if(result.modules, replaces_it); other != result.modules.end()) {
      result.refused.push_back(
          {component->name, fmt::format("{} reaches its peers", (*other)->attributes().transport)});
      continue;
    }
    if (auto usable = component->usable(store); !usable) {
      result.refused.push_back({component->name, to_string(usable.error())});
      continue;
    }
    parameters.exclusivity = component->exclusivity;
    auto modules = component->open(parameters, store);
    if (!modules) {
      log::warn("am", "transport {} is left out: {}", component->name, to_string(modules.error()));
      result.refused.push_back({component->name, to_string(modules.error())});
      continue;
    }
    for (auto& module : *modules) result.modules.push_back(std::move(module));
  }
  return result;
}

}  // namespace opal::am
