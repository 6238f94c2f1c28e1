// SPDX-License-Identifier: Apache-2.0
// The report as text.  A transport or a variable is one line; the columns are aligned.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "opal/tools/info/report.hpp"

namespace opal::tools::info {
namespace {

using Row = std::vector<std::string>;

/// One line per row.  Pads every column but the last to its widest cell, and removes trailing spaces.
std::string aligned(const std::vector<Row>& rows, std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line{indent};
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

/// The source of the strongest setting: "default", "environment OPAL_LOG".  "REFUSED": the setting is bad, so the value
/// in force is the default.
std::string source_of(const config::Listing& variable) {
  std::string text = name(variable.source);
  if (!variable.origin.empty()) text += ' ' + variable.origin;
  return variable.problem.empty() ? text : text + ": REFUSED";
}

}  // namespace

std::string overview_text(const Report& report) {
  const BuildInfo& build = report.build;
  std::string options = fmt::format("{}, {}, {}", build.compiler, build.build_type, build.architecture);
  if (build.assertions) options += ", assertions";
  if (*build.sanitizers != '\0') options += fmt::format(", sanitizers {}", build.sanitizers);
  std::string text = fmt::format("OPAL {} ({})\n\nTransports, the preferred one first\n", build.version, options);

  std::vector<Row> rows;
  for (const Transport& transport : report.transports) {
    std::string summary = transport.summary;
    if (!transport.file.empty()) summary += fmt::format(" [{}]", transport.file);
    if (!transport.refused.empty()) summary += ": " + transport.refused;
    rows.push_back({transport.name, transport.refused.empty() ? "usable" : "refused", std::move(summary)});
  }
  text += aligned(rows, "  ");
  if (!report.refused_files.empty()) text += "\nRefused of am_component_path\n";
  for (const am::ComponentFile& file : report.refused_files) text += fmt::format("  {}: {}\n", file.path, file.refusal);
  return text + (report.gpu.loaded
                     ? fmt::format("\nGPU memory: recognised, driver for CUDA {}.{}\n",
                                   report.gpu.driver_version / 1000, report.gpu.driver_version % 1000 / 10)
                     : fmt::format("\nGPU memory: not recognised: {}\n", report.gpu.why));
}

std::string variables_text(const Report& report, const Filter& filter) {
  std::string text;
  for (const Group& group : report.groups) {
    if (!filter.shows(group)) continue;
    std::vector<Row> rows;
    for (const config::Listing& variable : group.variables) {
      if (!filter.shows(variable)) continue;
      rows.push_back({variable.name, name(variable.var.type),
                      fmt::format("{} [{}]", variable.value.empty() ? "\"\"" : variable.value, source_of(variable)),
                      to_string(variable.var.range, variable.var.type), variable.var.doc});
    }
    if (rows.empty()) continue;
    text += fmt::format("{}{} ({})\n{}", text.empty() ? "" : "\n", group.title, group.name, aligned(rows, "  "));
  }
  return text;
}

}  // namespace opal::tools::info
