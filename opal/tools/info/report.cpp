// SPDX-License-Identifier: Apache-2.0
#include "opal/tools/info/report.hpp"

#include <algorithm>

#include "opal/am/config.hpp"
#include "opal/am/transports/transports.hpp"

namespace opal::tools::info {

Report collect(const am::Components& components, std::span<const config::GroupInfo* const> groups,
               const config::Store& store) {
  Report report{.build = build_info(),
                .gpu = {},
                .transports = {},
                .refused_files = {},
                .groups = {},
                .problems = store.problems(groups)};
  const std::string transports = store.present_value(am::kGroup, "am_transports");
  if (const auto filter = am::TransportFilter::parse(transports, components.registry); !filter)
    report.problems.push_back({config::Problem::Severity::error, filter.error().where});
  const Result<gpu::Config> gpu_config = store.load(gpu::kGroup);  // report.problems contains its errors
  report.gpu = gpu::start(gpu_config ? *gpu_config : gpu::Config{});
  for (const btl::Component* component : components.registry.components()) {
    Transport transport{std::string{component->name}, std::string{component->summary}, component->exclusivity, {}, {}};
    if (const Result<void> usable = component->usable(store); !usable) transport.refused = to_string(usable.error());
    for (const am::ComponentFile& file : components.files) {
      if (file.component == component) transport.file = file.path;
    }
    report.transports.push_back(std::move(transport));
  }
  for (const am::ComponentFile& file : components.files) {
    if (file.component == nullptr) report.refused_files.push_back(file);
  }
  for (const config::GroupInfo* group : groups) {
    report.groups.push_back({group->name(), group->title(), store.list(*group)});
  }
  return report;
}

bool Filter::shows(const config::Listing& variable) const {
  if (names.empty()) return variable.var.level <= level;
  return std::find(names.begin(), names.end(), variable.name) != names.end();
}

bool Filter::shows(const Group& group) const {
  return groups.empty() || std::find(groups.begin(), groups.end(), group.name) != groups.end();
}

}  // namespace opal::tools::info
