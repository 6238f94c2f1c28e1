// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/descendants.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::guard {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};

/// The parent of `pid`, 0 when it is gone.
pid_t parent_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name in parentheses may contain anything
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return std::atoi(text.c_str() + name_end + 4);  // ") S ppid"
}

/// For kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> children_by_scan(pid_t parent) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, CloseDirectory> proc{opendir("/proc")};
  if (!proc) return found;
  while (const dirent* entry = readdir(proc.get())) {
    const std::string_view name{entry->d_name};
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size() && parent_of(pid) == parent) found.push_back(pid);
  }
  return found;
}

/// The processes whose parent is `parent`, zombies included.
std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file{fmt::format("/proc/{0}/task/{0}/children", parent)};
  if (!file) return children_by_scan(parent);
  std::vector<pid_t> found;
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

}  // namespace

void kill_children(pid_t parent) {
  for (const pid_t pid : children_of(parent)) {
    // Not yet reaped, so neither the pid nor a group that it leads can belong to another process now.
    if (getpgid(pid) == pid) ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
  }
}

bool reap_children(const std::function<void(pid_t, int)>& on_exit) {
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid > 0) {
      on_exit(pid, status);
    } else if (pid == 0) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
}

}  // namespace runtime::guard
