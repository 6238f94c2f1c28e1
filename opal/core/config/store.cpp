// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config/store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "opal/core/config/core_config.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "opal/core/text.hpp"

namespace opal::config {
namespace {

std::string described(const Setting& setting) {
  return setting.origin.empty() ? name(setting.source) : fmt::format("{} {}", name(setting.source), setting.origin);
}

std::string unknown_name_text(const Setting& setting, const std::vector<std::string_view>& known) {
  const std::string_view nearest = nearest_name(setting.name, known);
  return fmt::format("{}: unknown variable ({}){}", setting.name, described(setting),
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

/// The message that `setting` is not a value of `var`; empty if it is one.
std::string value_problem(const Setting& setting, const VarInfo& var) {
  const std::string problem = parse(setting.value, var.type, var.range).problem;
  if (problem.empty()) return {};
  std::string text = fmt::format("{}: value \"{}\" ({}) {}", setting.name, setting.value, described(setting), problem);
  const std::string allowed = to_string(var.range, var.type);
  if (!allowed.empty()) text += fmt::format("; allowed: {}", allowed);
  return text;
}

bool contains_group(std::span<const GroupInfo* const> groups, std::string_view name) {
  return std::any_of(groups.begin(), groups.end(), [&](const GroupInfo* group) { return group->name() == name; });
}

}  // namespace

const char* name(Source source) noexcept {
  switch (source) {
    case Source::builtin: return "default";
    case Source::system_file: return "system file";
    case Source::user_file: return "user file";
    case Source::environment: return "environment";
    case Source::launcher: return "launcher";
    case Source::api: return "API";
  }
  return "unknown";
}

Result<std::pair<std::string, std::string>> parse_assignment(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Error{Errc::invalid_argument, 0, "a setting is written name=value"};
  const std::string_view name = trimmed(text.substr(0, equals));
  if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string_view::npos) {
    return Error{Errc::invalid_argument, 0, "a variable's name has only lower-case letters, digits and _"};
  }
  const std::string_view value = trimmed(text.substr(equals + 1));
  if (value.find('\n') != std::string_view::npos) return Error{Errc::invalid_argument, 0, "a value is one line"};
  return std::pair{std::string{name}, std::string{value}};
}

void Store::set(std::string_view name, std::string_view value) {
  add({std::string{name}, std::string{value}, Source::api, {}});
}

void Store::add(Setting setting) { settings_.push_back(std::move(setting)); }

const Setting* Store::find(std::string_view name, const VarInfo& var) const {
  const Setting* strongest = nullptr;
  for (const Setting& setting : settings_) {
    if (setting.name != name || (strongest != nullptr && setting.source < strongest->source)) continue;
    if (!setting.measured || value_problem(setting, var).empty()) strongest = &setting;
  }
  return strongest;
}

std::optional<Value> Store::value_of(const GroupInfo& group, std::size_t index) const {
  const VarInfo var = group.var(index);
  const Setting* setting = find(group.full_name(index), var);
  if (setting == nullptr) return std::nullopt;
  Parsed parsed = parse(setting->value, var.type, var.range);
  if (!parsed.problem.empty()) return std::nullopt;
  return std::move(parsed.value);
}

Result<void> Store::check_values(const GroupInfo& group) const {
  Result<void> outcome;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Setting* setting = find(group.full_name(i), group.var(i));
    if (setting == nullptr) continue;
    const std::string problem = value_problem(*setting, group.var(i));
    if (problem.empty()) continue;
    log::once(log::Level::error, problem, "config", "{}", problem);
    if (outcome) outcome = Error{Errc::invalid_argument, 0, kept_for_ever(problem)};
  }
  return outcome;
}

std::vector<Problem> Store::problems(std::span<const GroupInfo* const> groups,
                                     std::span<const std::string_view> foreign_prefixes) const {
  std::vector<const GroupInfo*> all{groups.begin(), groups.end()};
  if (!contains_group(groups, kCoreGroup.name())) all.push_back(&kCoreGroup);

  std::vector<Problem> found = unreadable_;
  std::vector<std::string> names;
  for (const GroupInfo* group : all) {
    for (std::size_t i = 0; i < group->size(); ++i) {
      names.push_back(group->full_name(i));
      for (const Setting& setting : settings_) {
        if (!setting.measured || setting.name != names.back()) continue;
        std::string problem = value_problem(setting, group->var(i));
        if (!problem.empty()) found.push_back({Problem::Severity::warning, std::move(problem)});
      }
      const Setting* setting = find(names.back(), group->var(i));
      if (setting == nullptr) continue;
      const std::string problem = value_problem(*setting, group->var(i));
      if (!problem.empty()) found.push_back({Problem::Severity::error, problem});
    }
  }

  const std::vector<std::string_view> known{names.begin(), names.end()};
  const bool unknown_is_error = present_value(kCoreGroup, "strict") == "true";
  for (const Setting& setting : settings_) {
    if (std::find(known.begin(), known.end(), setting.name) != known.end()) continue;
    const bool foreign = std::any_of(foreign_prefixes.begin(), foreign_prefixes.end(),
                                     [&](std::string_view prefix) { return setting.name.starts_with(prefix); });
    if (foreign) continue;
    const bool error = (unknown_is_error && !setting.measured) || setting.source == Source::api;
    found.push_back({error ? Problem::Severity::error : Problem::Severity::warning, unknown_name_text(setting, known)});
  }
  return found;
}

Result<void> Store::verify(std::span<const GroupInfo* const> groups,
                           std::span<const std::string_view> foreign_prefixes) const {
  Result<void> outcome;
  const bool reported = environment(kSettingsReported).has_value();
  for (const Problem& problem : problems(groups, foreign_prefixes)) {
    const bool error = problem.severity == Problem::Severity::error;
    if (!error && reported) continue;
    log::once(error ? log::Level::error : log::Level::warn, problem.text, "config", "{}", problem.text);
    if (error && outcome) outcome = Error{Errc::invalid_argument, 0, kept_for_ever(problem.text)};
  }
  return outcome;
}

std::vector<Listing> Store::list(const GroupInfo& group) const {
  std::vector<Listing> rows;
  for (std::size_t i = 0; i < group.size(); ++i) {
    Listing row;
    row.name = group.full_name(i);
    row.var = group.var(i);
    row.default_text = to_string(group.default_value(i));
    row.value = row.default_text;
    if (const Setting* setting = find(row.name, row.var)) {
      row.problem = value_problem(*setting, row.var);
      if (const std::optional<Value> value = value_of(group, i)) row.value = to_string(*value);
      row.source = setting->source;
      row.origin = setting->origin;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Store::present_value(const GroupInfo& group, std::string_view name) const {
  std::vector<Listing> rows = list(group);
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Listing& row) { return row.name == name; });
  return found != rows.end() ? std::move(found->value) : std::string{};
}

std::string GroupInfo::full_name(std::size_t index) const {
  const std::string name = var(index).name;
  return std::string_view{name_} == "core" ? name : fmt::format("{}_{}", name_, name);
}

Result<void> apply_to_process(const Store& store) {
  OPAL_TRY_ASSIGN(const CoreConfig config, store.load(kCoreGroup));
  for (const Listing& variable : store.list(kCoreGroup)) {
    // A Store without a setting of `log`, as in tests, does not change the level.
    if (variable.name != "log" || variable.source == Source::builtin) continue;
    if (const std::optional<log::Level> level = log::level_from_name(config.log)) log::set_level(*level);
  }
  return {};
}

}  // namespace opal::config
