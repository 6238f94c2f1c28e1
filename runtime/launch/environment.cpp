// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/environment.hpp"

#include <fmt/format.h>

#include <map>

#include "opal/core/config_store.hpp"
#include "opal/core/environment.hpp"
#include "runtime/variables.hpp"

namespace runtime::launch {
namespace {

constexpr char kSettings[] = "OPAL_SET";  // what opal::config::Store reads as the launcher's settings

}  // namespace

std::vector<std::string> to_environment(const Variables& variables) {
  std::map<std::string, std::size_t> place;
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) {
    const auto [entry, is_new] = place.emplace(name, result.size());
    std::string text = fmt::format("{}={}", name, value);
    if (is_new) {
      result.push_back(std::move(text));
    } else {
      result[entry->second] = std::move(text);
    }
  }
  return result;
}

Variables job_variables(const Options& options, const std::string& job_id, const std::string& secret_file) {
  Variables variables = opal::environment_with_prefix("");
  if (!options.working_directory.empty()) variables.emplace_back("PWD", options.working_directory);
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  auto settings = options.settings;
  settings.emplace_back("am_secret_file", secret_file);  // the last one counts; the content is what the user chose
  variables.emplace_back(kSettings, opal::config::Store::encode_for_launch(settings));
  variables.emplace_back(kJobIdVariable, job_id);
  return variables;
}

Variables rank_variables(int rank, unsigned ranks) {
  const std::string number = fmt::format("{}", rank);
  const std::string count = fmt::format("{}", ranks);
  return {{"OMPI_COMM_WORLD_RANK", number},
          {"OMPI_COMM_WORLD_SIZE", count},
          {"OMPI_COMM_WORLD_LOCAL_RANK", number},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", count}};
}

}  // namespace runtime::launch
