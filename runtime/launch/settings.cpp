// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/settings.hpp"

#include <array>
#include <string_view>

#include "opal/am/groups.hpp"

namespace runtime::launch {
namespace {

constexpr std::array<std::string_view, 1> kForeignPrefixes{"mpi_"};

}  // namespace

opal::config::Store launcher_settings(const Options& options) {
  opal::config::Store store;
  for (const auto& [name, value] : options.settings) {
    store.add({name, value, opal::config::Source::launcher, "--set"});
  }
  return store;
}

std::string check_settings(const Options& options) {
  const auto groups = opal::am::config_groups(opal::btl::Registry::with_builtins());
  std::string text;
  // A name that would only be warned about in a rank is a mistake here: somebody typed it for this one command.
  for (const opal::config::Problem& problem : launcher_settings(options).problems(groups, kForeignPrefixes)) {
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  return text;
}

}  // namespace runtime::launch
