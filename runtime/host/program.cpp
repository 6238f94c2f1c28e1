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

enum class Found { yes, no, directory, not_executable };

Found look_at(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return errno == EACCES ? Found::not_executable : Found::no;
  if (S_ISDIR(about.st_mode)) return Found::directory;
  return ::access(path.c_str(), X_OK) == 0 ? Found::yes : Found::not_executable;
}

Program answer(Found found, const std::string& path, const char* not_found) {
  switch (found) {
    case Found::yes: return {path, {}, 0};
    case Found::no: return {path, not_found, 127};
    case Found::directory: return {path, "is a directory", 126};
    case Found::not_executable: return {path, "permission denied", 126};
  }
  return {path, not_found, 127};
}

}  // namespace

Program find_program(const std::string& name, const std::string& directory, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    return answer(look_at(fs::path{directory} / name), name, "no such file or directory");
  }
  Found best = Found::no;
  for (const std::string_view folder : opal::split(search_path, ':')) {
    const fs::path candidate = fs::path{folder.empty() ? "." : folder} / name;
    const Found found = look_at(fs::path{directory} / candidate);
    if (found == Found::yes) return answer(found, candidate, "");
    if (found == Found::not_executable) best = found;
  }
  return answer(best, name, "command not found");
}

int status_of_exec_error(int os_errno) noexcept { return os_errno == ENOENT || os_errno == ENOTDIR ? 127 : 126; }

}  // namespace runtime::launch
