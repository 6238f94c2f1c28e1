// SPDX-License-Identifier: Apache-2.0
// tests/harness/process.hpp — what the kernel reports about processes and threads in /proc.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace opal::test {

/// Number of descriptors that this process has open, with the one that reads them.
inline std::size_t open_descriptors() {
  using std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(directory_iterator{"/proc/self/fd"}, directory_iterator{}));
}

/// The state of a process or thread, as in proc(5): 'R' runs, 'S' sleeps, 'T' is stopped, 'Z' has ended; '?': none.
inline char state_of(pid_t id) {
  std::ifstream file{"/proc/" + std::to_string(id) + "/stat"};
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? '?' : text[name_end + 2];
}

}  // namespace opal::test
