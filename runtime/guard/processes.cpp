// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/processes.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace runtime::guard {
namespace {

constexpr unsigned long kExitingFlag = 0x4;  // PF_EXITING of the kernel, part of /proc/PID/stat since 2.6

/// The fields of /proc/PID/stat after the name, which may contain anything; none when the process is gone.
std::istringstream stat_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return std::istringstream{name_end == std::string::npos ? std::string{} : text.substr(name_end + 1)};
}

/// For kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> children_by_scan(pid_t parent) {
  std::vector<pid_t> found = all_processes();
  std::erase_if(found, [&](pid_t pid) {
    std::string state;
    pid_t its_parent = 0;
    stat_of(pid) >> state >> its_parent;
    return its_parent != parent;
  });
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

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc", error}) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc{}) found.push_back(pid);
  }
  return found;
}

bool is_exiting(pid_t pid) {
  std::istringstream fields = stat_of(pid);
  std::string state;
  long ignored = 0;
  unsigned long flags = 0;
  fields >> state;
  for (int i = 0; i < 5; ++i) fields >> ignored;  // ppid pgrp session tty tpgid
  fields >> flags;
  return !fields || (flags & kExitingFlag) != 0;
}

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
