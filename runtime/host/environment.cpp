// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "opal/core/config/store.hpp"
#include "opal/core/environment.hpp"
#include "runtime/variables.hpp"

namespace runtime::launch {
namespace {

constexpr char kSettings[] = "OPAL_SET";  // what opal::config::Store reads as the launcher's settings

}  // namespace

std::vector<std::string> to_environment(const Variables& variables) {
  std::map<std::string, std::string> last;
  for (const auto& [name, value] : variables) last[name] = value;
  std::vector<std::string> result;
  result.reserve(last.size());
  for (const auto& [name, value] : last) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

Variables job_variables(const Options& options, const JobNames& names) {
  Variables variables = opal::environment_with_prefix("");
  if (!options.working_directory.empty()) variables.emplace_back("PWD", options.working_directory);
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  auto settings = options.settings;
  settings.emplace_back("am_secret_file",
                        names.secret_file);  // the last one counts; the content is what the user chose
  variables.emplace_back(kSettings, opal::config::Store::encode_for_launch(settings));
  // The launcher's own Context has logged them: once for the job instead of once for each rank.
  variables.emplace_back(opal::config::kSettingsReported, "1");
  variables.emplace_back(kJobIdVariable, names.job_id);
  variables.emplace_back(kSessionVariable, names.session);
  return variables;
}

Variables rank_variables(unsigned rank, unsigned ranks, const std::vector<std::uint32_t>& local) {
  const auto place = std::ranges::lower_bound(local, rank) - local.begin();
  return {{"OMPI_COMM_WORLD_RANK", fmt::format("{}", rank)},
          {"OMPI_COMM_WORLD_SIZE", fmt::format("{}", ranks)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", fmt::format("{}", place)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", fmt::format("{}", local.size())}};
}

Variables forwarded_variables() {
  constexpr std::array<std::string_view, 10> kOwn{"HOSTNAME", "TMPDIR", "PWD",     "OLDPWD",          "SHLVL",
                                                  "_",        "TTY",    "DISPLAY", "XDG_RUNTIME_DIR", kSettings};
  constexpr std::array<std::string_view, 4> kOwnPrefixes{"SSH_", "PMIX_", "OPAL_INTERNAL_", "SLURM"};
  Variables variables = opal::environment_with_prefix("");
  std::erase_if(variables, [&](const auto& variable) {
    const std::string& name = variable.first;
    return std::ranges::find(kOwn, name) != kOwn.end() ||
           std::ranges::any_of(kOwnPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  });
  return variables;
}

}  // namespace runtime::launch
