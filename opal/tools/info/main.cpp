// SPDX-License-Identifier: Apache-2.0
// opal-info: shows version and build options, usable transports, and all variables with their values and sources.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "opal/am/bootstrap/secret_choice.hpp"
#include "opal/am/components.hpp"
#include "opal/core/system/machine.hpp"
#include "opal/tools/info/report.hpp"

namespace {

using namespace opal;
using namespace opal::tools::info;

constexpr const char* kExamples = R"(
Examples:
  opal-info                               the transports, and the variables for all users
  opal-info --group btl_sm --level tuner  what can be tuned in the shared-memory transport
  opal-info btl_sm_fbox_size              one variable
  opal-info --set btl_sm_fbox_size=5000   whether a setting is good, without running anything
  opal-info --all --json                  everything, for a program

Exit status: 0; 1 when a setting is wrong (what is wrong is on stderr); 2 for a wrong command line.)";

struct Options {
  bool all = false;
  bool json = false;
  std::vector<std::string> names;
  std::vector<std::string> groups;
  std::vector<std::string> settings;
  std::string level;  ///< argument of --level; empty: shown_level() chooses
};

/// The level of --level.  Default: developer with --all, --json or --group, else user.
config::Level shown_level(const Options& options) {
  for (const config::Level level : {config::Level::user, config::Level::tuner, config::Level::developer}) {
    if (options.level == name(level)) return level;
  }
  const bool everything = options.all || options.json || !options.groups.empty();
  return everything ? config::Level::developer : config::Level::user;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// The paths of the settings files, and of the secret of processes that run without a launcher.
std::string files_text() {
  std::string text = "Files of settings, the weaker one first\n";
  const auto line = [&](const std::string& path) {
    text += fmt::format("  {}{}\n", path, ::access(path.c_str(), F_OK) == 0 ? "" : " (not there)");
  };
  for (const std::string& path : config_files()) line(path);
  text += "\nSecret of this user's processes (am_secret_file)\n";
  const std::string secret = am::user_secret_file();
  if (secret.empty()) return text + "  none: neither HOME nor XDG_CONFIG_HOME is set\n";
  line(secret);
  return text;
}

/// Prints the problems to stderr.  True if one of them is an error.
bool print_problems(const std::vector<config::Problem>& problems) {
  bool any_error = false;
  for (const config::Problem& problem : problems) {
    const bool error = problem.severity == config::Problem::Severity::error;
    any_error = any_error || error;
    std::fprintf(stderr, "opal-info: %s: %s\n", error ? "error" : "warning", problem.text.c_str());
  }
  return any_error;
}

int run(const Options& options) {
  config::Store store = config::Store::from_environment();
  for (const std::string& setting : options.settings) {
    Result<std::pair<std::string, std::string>> assignment = config::parse_assignment(setting);
    if (!assignment) {
      std::fprintf(stderr, "opal-info: --set %s: %s\n", setting.c_str(), assignment.error().where);
      return 2;
    }
    store.set(assignment->first, assignment->second);
  }

  const am::Components components = am::find_components(store);
  std::vector<const config::GroupInfo*> groups = am::config_groups(components.registry);
  for (const config::GroupInfo* group : upper_groups()) groups.push_back(group);
  for (const std::string& wanted : options.groups) {
    if (std::any_of(groups.begin(), groups.end(), [&](const auto* group) { return group->name() == wanted; })) continue;
    std::string names;
    for (const config::GroupInfo* group : groups) names += fmt::format(" {}", group->name());
    std::fprintf(stderr, "opal-info: no group is called %s; there are:%s\n", wanted.c_str(), names.c_str());
    return 2;
  }

  const Report report = collect(components, groups, store);
  for (const std::string& wanted : options.names) {
    const auto has = [&](const Group& group) {
      return std::any_of(group.variables.begin(), group.variables.end(),
                         [&](const config::Listing& variable) { return variable.name == wanted; });
    };
    if (std::any_of(report.groups.begin(), report.groups.end(), has)) continue;
    std::fprintf(stderr, "opal-info: no variable is called %s; opal-info --all shows them\n", wanted.c_str());
    return 2;
  }
  const Filter filter{options.groups, shown_level(options), options.names};
  if (options.json) {
    print(to_json(report, filter));
  } else {
    const bool all = options.groups.empty() && options.names.empty();
    if (all) print(overview_text(report) + '\n' + files_text() + '\n');
    print(variables_text(report, filter));
    if (all && shown_level(options) == config::Level::user)
      print("\nMore variables: opal-info --all, or --level tuner\n");
  }
  return print_problems(report.problems) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Shows the version and build of OPAL, the transports usable here, and every configuration variable."};
  app.footer(kExamples);
  app.add_option("VARIABLE", options.names, "only these variables, of whatever level");
  app.add_flag("--all,-a", options.all, "variables of every level");
  app.add_option("--group,-g", options.groups, "only the variables of this group (may be repeated)")
      ->type_name("GROUP");
  app.add_option("--level,-l", options.level, "variables up to this level: user, tuner or developer")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"user", "tuner", "developer"}).description(""));
  app.add_option("--set", options.settings, "as if the program had set a variable (may be repeated)")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--json", options.json, "one JSON object instead of text");
  app.set_version_flag("--version", std::string{"opal-info "} + build_info().version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(options);
}
