// SPDX-License-Identifier: Apache-2.0
// MPI_INFO_ENV: how this process was started.
#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/include/mpi.h"
#include "mpi_shim/info/info.hpp"

namespace mpi_shim::info {
namespace {

std::vector<std::string> own_command_line() {
  std::ifstream file{"/proc/self/cmdline", std::ios::binary};
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
  return words;
}

const char* name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "MPI_THREAD_SINGLE";
  }
}

}  // namespace

Info::Entries describe_environment(std::span<char* const> arguments, int size, int thread_level) {
  const std::vector<std::string> words =
      arguments.empty() ? own_command_line() : std::vector<std::string>{arguments.begin(), arguments.end()};
  Info::Entries entries;
  const auto add = [&](const char* key, std::string value) {
    if (value.empty()) return;
    value.resize(std::min<std::size_t>(value.size(), MPI_MAX_INFO_VAL - 1));
    entries.emplace_back(key, std::move(value));
  };
  if (!words.empty()) add("command", words.front());
  std::ostringstream rest;
  for (std::size_t i = 1; i < words.size(); ++i) rest << (i > 1 ? " " : "") << words[i];
  add("argv", rest.str());
  if (size > 0) add("maxprocs", std::to_string(size));
  if (size > 0) add("thread_level", name_of_level(thread_level));
  std::error_code ignored;
  add("wdir", std::filesystem::current_path(ignored).string());
  if (utsname system{}; ::uname(&system) == 0) {
    add("host", system.nodename);
    add("arch", system.machine);
  }
  return entries;
}

void publish_environment(int size, int thread_level) {
  static Info environment{reinterpret_cast<std::uintptr_t>(MPI_INFO_ENV), describe_environment({}, size, thread_level)};
  handle::set_builtin(environment);
}

}  // namespace mpi_shim::info
