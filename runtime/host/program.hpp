// SPDX-License-Identifier: Apache-2.0
// runtime/host/program.hpp — finds the program as a shell does, and knows a shell's words for what went wrong.
#pragma once
#include <string>
#include <vector>

namespace runtime::launch {

struct Program {
  std::string path;     ///< for execve; relative to `directory`
  std::string problem;  ///< empty, or "command not found" and the like
  int status = 0;       ///< 126 or 127 when there is a problem
};

/// Finds `name`: with a slash it is a path from `directory`, else it is looked up in `search_path` (as $PATH).
Program find_program(const std::string& name, const std::string& directory, const std::string& search_path);

/// The exit status for a program that execve refused with `os_errno`.
int status_of_exec_error(int os_errno) noexcept;

}  // namespace runtime::launch
