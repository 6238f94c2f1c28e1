// SPDX-License-Identifier: Apache-2.0
// opal/tools/info/report.hpp — the data that opal-info prints, and its formats: text, JSON.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/am/components.hpp"
#include "opal/core/build_info.hpp"
#include "opal/core/config/store.hpp"
#include "opal/gpu/gpu.hpp"

namespace opal::tools::info {

struct Transport {
  std::string name;
  std::string summary;
  std::uint32_t exclusivity;  ///< btl::Component::exclusivity: higher is preferred
  std::string refused;        ///< why it is not usable on this host; empty if it is usable
  std::string file;           ///< the shared object that contains it; empty: it is built into libopal
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
  std::vector<am::ComponentFile> refused_files;  ///< of am_component_path
  std::vector<Group> groups;
  std::vector<config::Problem> problems;
};

/// The groups of libopal_runtime and libmpi_abi, if these are installed.  opal-info does not link with libraries above
/// libopal: it loads them, never unloads them, and calls their function config::kListGroupsSymbol.
std::vector<const config::GroupInfo*> upper_groups();

/// Tests whether each transport is usable, starts the GPU driver, and lists the variables of `groups` with their values
/// in `store`.
Report collect(const am::Components& components, std::span<const config::GroupInfo* const> groups,
               const config::Store& store);

/// Selects groups and variables of a report.
struct Filter {
  std::vector<std::string> groups;            ///< names of groups; empty: all
  config::Level level = config::Level::user;  ///< shows variables up to this level; ignored if `names` is not empty
  std::vector<std::string> names = {};        ///< names of variables; empty: all up to `level`
  [[nodiscard]] bool shows(const Group& group) const;
  [[nodiscard]] bool shows(const config::Listing& variable) const;
};

/// Version, build options, transports and GPU driver as text.
std::string overview_text(const Report& report);

/// The variables that pass `filter`, a table per group.
std::string variables_text(const Report& report, const Filter& filter);

/// All of the report, filtered, as one JSON object.
std::string to_json(const Report& report, const Filter& filter);

}  // namespace opal::tools::info
