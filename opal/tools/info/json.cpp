// SPDX-License-Identifier: Apache-2.0
// The report as one JSON object.  Programs read it: keys are never renamed.
#include <nlohmann/json.hpp>

#include "opal/tools/info/report.hpp"

namespace opal::tools::info {
namespace {

using nlohmann::json;

/// The unit of a number without suffix.
const char* unit_of(const config::VarInfo& variable) noexcept {
  switch (variable.type) {
    case config::Type::size: return "bytes";
    case config::Type::milliseconds: return "ms";
    case config::Type::microseconds: return "us";
    default: return variable.unit;
  }
}

json to_json(const config::Listing& variable) {
  json object{{"name", variable.name},
              {"type", name(variable.var.type)},
              {"unit", unit_of(variable.var)},
              {"level", name(variable.var.level)},
              {"value", variable.value},
              {"default", variable.default_text},
              {"source", name(variable.source)},
              {"origin", variable.origin},
              {"allowed", to_string(variable.var.range, variable.var.type)},
              {"doc", variable.var.doc}};
  if (!variable.problem.empty()) object["problem"] = variable.problem;
  return object;
}

}  // namespace

std::string to_json(const Report& report, const Filter& filter) {
  json object{{"version", report.build.version},
              {"build",
               {{"compiler", report.build.compiler},
                {"type", report.build.build_type},
                {"architecture", report.build.architecture},
                {"sanitizers", report.build.sanitizers},
                {"assertions", report.build.assertions}}},
              {"gpu", {{"usable", report.gpu.loaded}}},
              {"transports", json::array()},
              {"refused_components", json::array()},
              {"groups", json::array()},
              {"problems", json::array()}};
  if (report.gpu.loaded) {
    object["gpu"]["driver_version"] = report.gpu.driver_version;
  } else {
    object["gpu"]["why"] = report.gpu.why;
  }
  for (const Transport& transport : report.transports) {
    json entry{{"name", transport.name},
               {"summary", transport.summary},
               {"exclusivity", transport.exclusivity},
               {"usable", transport.refused.empty()}};
    if (!transport.refused.empty()) entry["why"] = transport.refused;
    if (!transport.file.empty()) entry["file"] = transport.file;
    object["transports"].push_back(std::move(entry));
  }
  for (const am::ComponentFile& file : report.refused_files) {
    object["refused_components"].push_back({{"file", file.path}, {"why", file.refusal}});
  }
  for (const Group& group : report.groups) {
    if (!filter.shows(group)) continue;
    json entry{{"name", group.name}, {"title", group.title}, {"variables", json::array()}};
    for (const config::Listing& variable : group.variables) {
      if (filter.shows(variable)) entry["variables"].push_back(to_json(variable));
    }
    object["groups"].push_back(std::move(entry));
  }
  for (const config::Problem& problem : report.problems) {
    const bool error = problem.severity == config::Problem::Severity::error;
    object["problems"].push_back({{"severity", error ? "error" : "warning"}, {"text", problem.text}});
  }
  // A setting may contain any bytes; the replacement character stands for those that are not UTF-8.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace opal::tools::info
