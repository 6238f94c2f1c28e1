// SPDX-License-Identifier: Apache-2.0
// runtime/host/program.hpp — finds the program as a shell does; the messages and statuses are those of a shell.
#pragma once
#include <string>

namespace runtime::launch {

struct Program {
  std::string path;     ///< for execve; relative to `directory`
  std::string problem;  ///< empty, or a text such as "command not found"
  int status = 0;       ///< 126 or 127 when there is a problem
};

/// Finds `name`.  With a slash it is a path relative to `directory`; else it is searched in `search_path`, which has
/// the form of $PATH and may have entries relative to `directory`.
Program find_program(const std::string& name, const std::string& directory, const std::string& search_path);

/// The exit status for a program that execve refused with `os_errno`.
int status_of_exec_error(int os_errno) noexcept;

}  // namespace runtime::launch
