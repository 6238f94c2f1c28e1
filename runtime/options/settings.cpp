// SPDX-License-Identifier: Apache-2.0
#include "runtime/options/settings.hpp"

#include <array>
#include <string_view>

#include "opal/am/groups.hpp"
#include "runtime/options/config.hpp"

namespace runtime::launch {
namespace {

constexpr std::array<std::string_view, 1> kForeignPrefixes{"mpi_"};

void add(opal::config::Store& store, const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : settings) store.add({name, value, opal::config::Source::launcher, "--set"});
}

}  // namespace

opal::config::Store store_with(const std::vector<std::pair<std::string, std::string>>& settings) {
  opal::config::Store store = opal::config::Store::from_environment();
  add(store, settings);
  return store;
}

std::string check_settings(const Options& options) {
  auto groups = opal::am::config_groups(opal::btl::Registry::with_builtins());
  groups.push_back(&kGroup);
  opal::config::Store ours;
  add(ours, options.settings);
  std::string text;
  // A name that would only be warned about in a rank is a mistake here: the user typed it for this one command.
  for (const opal::config::Problem& problem : ours.problems(groups, kForeignPrefixes)) {
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  // What would end every rank is said once, here.
  for (const opal::config::Problem& problem :
       opal::config::Store::from_environment().problems(groups, kForeignPrefixes)) {
    if (problem.severity != opal::config::Problem::Severity::error) continue;
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  return text;
}

}  // namespace runtime::launch
