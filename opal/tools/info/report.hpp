// SPDX-License-Identifier: Apache-2.0
// opal/tools/info/report.hpp — everything opal-info says, collected once and then shown as text, JSON or Markdown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/build_info.hpp"
#include "opal/core/config/store.hpp"
#include "opal/gpu/gpu.hpp"

namespace opal::tools::info {

struct Transport {
  std::string name;
  std::string summary;
  std::uint32_t exclusivity;
  std::string refused;  ///< why it cannot be used here; empty when it can
};

struct Group {
  std::string name;
  std::string title;
  std::vector<config::Listing> variables;
};

struct Report {
  BuildInfo build;
  gpu::Status gpu;
  std::vector<Transport> transports;
  std::vector<Group> groups;
  std::vector<config::Problem> problems;
};

/// The groups of libopal_runtime and libmpi_abi as far as these are installed.  This tool must not depend on the
/// libraries above libopal: it loads them for ever and asks each for its groups (config::kListGroupsSymbol).
std::vector<const config::GroupInfo*> upper_groups();

/// Asks every transport of `registry` whether it is usable, looks for the GPU driver, and asks `store` for the
/// variables of `groups`.
Report collect(const btl::Registry& registry, std::span<const config::GroupInfo* const> groups,
               const config::Store& store);

/// What of a report is shown.
struct Filter {
  std::vector<std::string> groups;            ///< names; none means all
  config::Level level = config::Level::user;  ///< the most specialised variables shown
  std::vector<std::string> names = {};        ///< variables; none means all of these levels
  [[nodiscard]] bool shows(const Group& group) const;
  [[nodiscard]] bool shows(const config::Listing& variable) const;
};

/// Version, build, transports and GPU memory as lines for people.
std::string overview_text(const Report& report);

/// The variables that pass `filter`, a table per group.
std::string variables_text(const Report& report, const Filter& filter);

/// All of the report, filtered, as one JSON object.
std::string to_json(const Report& report, const Filter& filter);

/// docs/config.md: every variable of every level with its default, independent of this machine and its settings.
std::string to_markdown(const Report& report);

}  // namespace opal::tools::info
