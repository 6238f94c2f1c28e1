// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "opal/core/text.hpp"

namespace runtime::launch {
namespace {

namespace fs = std::filesystem;

constexpr char kDenied[] = "permission denied";

/// Looks at `path` within `directory`; `absent` is the problem if nothing is there.
Program look_at(const std::string& directory, const std::string& path, const char* absent) {
  const fs::path whole = fs::path{directory} / path;
  struct stat about {};
  if (::stat(whole.c_str(), &about) != 0 && errno != EACCES) return {path, absent, 127};
  if (S_ISDIR(about.st_mode)) return {path, "is a directory", 126};
  if (::access(whole.c_str(), X_OK) != 0) return {path, kDenied, 126};
  return {path, {}, 0};
}

}  // namespace

Program find_program(const std::string& name, const std::string& directory, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return look_at(directory, name, "no such file or directory");
  Program best{name, "command not found", 127};
  for (const std::string_view folder : opal::split(search_path, ':')) {
    Program found = look_at(directory, fs::path{folder.empty() ? "." : folder} / name, "");
    if (found.status == 0) return found;
    if (found.problem == kDenied) best = {name, kDenied, found.status};
  }
  return best;
}

int status_of_exec_error(int os_errno) noexcept { return os_errno == ENOENT || os_errno == ENOTDIR ? 127 : 126; }

}  // namespace runtime::launch
