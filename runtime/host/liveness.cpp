// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/liveness.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

namespace runtime::launch {
namespace {

constexpr unsigned long kExitingFlag = 0x4;  // PF_EXITING of the kernel, part of /proc/PID/stat since 2.6

}  // namespace

bool is_exiting(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t name_end = text.rfind(')');  // the name in parentheses may contain anything
  if (name_end == std::string::npos) return true;
  std::istringstream fields{text.substr(name_end + 1)};
  std::string state;
  long ignored = 0;
  unsigned long flags = 0;
  fields >> state;
  for (int i = 0; i < 5; ++i) fields >> ignored;  // ppid pgrp session tty tpgid
  fields >> flags;
  return !fields || (flags & kExitingFlag) != 0;
}

}  // namespace runtime::launch
