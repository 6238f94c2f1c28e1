// SPDX-License-Identifier: Apache-2.0
// Where a Store's settings come from: the environment, the launcher's OPAL_SET, and files.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "opal/core/config/store.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/system/machine.hpp"
#include "opal/core/text.hpp"

namespace opal::config {
namespace {

constexpr std::string_view kPrefix = "OPAL_";
constexpr std::string_view kInternalPrefix = "OPAL_INTERNAL_";
constexpr std::string_view kLauncherName = "OPAL_SET";
constexpr std::uintmax_t kLargestFile = 1U << 20;  // a larger file is not a configuration file

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// "OPAL_BTL_SM_FBOX_SIZE" -> "btl_sm_fbox_size".
std::string variable_name(std::string_view environment_name) {
  std::string name;
  for (const char c : environment_name.substr(kPrefix.size())) name += lower(c);
  return name;
}

/// `line` without its comment.  A '#' starts a comment at the start of the line or after a blank; others are values.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

/// Adds the settings in `folder` that opal-perf tune has measured on machines of this kind.  The caller then adds the
/// configuration file of the same place, which has precedence because a user wrote it.
void add_machine_file(Store& store, Source source, const std::string& folder) {
  if (folder.empty() || ::access(folder.c_str(), X_OK) != 0) return;
  store.add_measured_file(source, folder + '/' + machine_kind() + ".conf");
}

}  // namespace

Store Store::from_environment() {
  Store store;
  for (const std::string& folder : system_config_folders()) {
    add_machine_file(store, Source::system_file, folder + "/tuned");
    store.add_file(Source::system_file, folder + "/opal.conf", false);
  }
  add_machine_file(store, Source::user_file, user_tuning_folder());
  if (const std::string path = user_config_file(); !path.empty()) {
    store.add_file(Source::user_file, path, environment(kUserConfigFileName).has_value());
  }
  store.add_environment(environment_with_prefix(kPrefix));
  return store;
}

void Store::add_environment(std::span<const std::pair<std::string, std::string>> variables) {
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kPrefix) || name.starts_with(kInternalPrefix)) continue;
    if (name != kLauncherName) {
      add({variable_name(name), value, Source::environment, name});
      continue;
    }
    for (const std::string_view line : split(value, '\n')) {
      const Result<std::pair<std::string, std::string>> assignment = parse_assignment(line);
      if (assignment) {
        add({assignment->first, assignment->second, Source::launcher, "--set"});
      } else if (!trimmed(line).empty()) {
        unreadable_.push_back(
            {Problem::Severity::error, fmt::format("{}: \"{}\" is not name=value", kLauncherName, line)});
      }
    }
  }
}

std::string Store::encode_for_launch(std::span<const std::pair<std::string, std::string>> settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += fmt::format("{}={}\n", name, value);
  return text;
}

void Store::add_file(Source source, const std::string& path, bool required) {
  const auto complain = [&](const std::string& why) {
    unreadable_.push_back({Problem::Severity::error, fmt::format("{} {}: {}", name(source), path, why)});
  };
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) {
    const bool absent = errno == ENOENT || errno == ENOTDIR;
    if (required || !absent) complain(std::strerror(errno));
    return;
  }
  // Only a regular file: a read of a pipe or terminal could block the program before it has logged anything.
  if (!S_ISREG(about.st_mode)) return complain("not a regular file");
  if (static_cast<std::uintmax_t>(about.st_size) > kLargestFile) return complain("larger than 1 MiB");
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  if (!file && about.st_size != 0) return complain("cannot be read");
  add_text(source, text.str(), path);
}

void Store::add_measured_file(Source source, const std::string& path) {
  Store file;
  file.add_file(source, path, false);
  for (Setting& setting : file.settings_) {
    setting.measured = true;
    add(std::move(setting));
  }
  for (Problem& problem : file.unreadable_)
    unreadable_.push_back({Problem::Severity::warning, std::move(problem.text)});
}

void Store::add_text(Source source, std::string_view text, const std::string& path) {
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view content = trimmed(without_comment(line));
    if (content.empty()) continue;
    const std::string origin = fmt::format("{}:{}", path, number);
    if (Result<std::pair<std::string, std::string>> assignment = parse_assignment(content)) {
      add({std::move(assignment->first), std::move(assignment->second), source, origin});
    } else {
      unreadable_.push_back(
          {Problem::Severity::error, fmt::format("{} {}: {}", name(source), origin, assignment.error().where)});
    }
  }
}

}  // namespace opal::config
