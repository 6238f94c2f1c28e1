// SPDX-License-Identifier: Apache-2.0
// opalrun, mpirun, mpiexec: one program under three names.
#include <cstdio>
#include <filesystem>
#include <span>

#include "runtime/launch/control.hpp"
#include "runtime/launch/launcher.hpp"
#include "runtime/pmix/server.hpp"

int main(int argc, char** argv) {
  const std::span<char* const> command_line{argv, static_cast<std::size_t>(argc)};
  const std::string name = argc > 0 ? std::filesystem::path{argv[0]}.filename().string() : "opalrun";
  if (name == runtime::pmix::kStandInName) runtime::pmix::stand_in();
  std::vector<std::string> arguments;
  if (argc > 1) arguments.assign(argv + 1, argv + argc);
  const auto parsed = runtime::launch::parse_command_line(name, arguments);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.status == 0 ? stdout : stderr);
    return parsed.status;
  }
  if (const auto& options = *parsed.options; options.quiesce != 0) {
    return runtime::launch::quiesce_job(name, options.quiesce, options.timeout.value_or(std::chrono::milliseconds{0}));
  } else if (options.resume != 0) {
    return runtime::launch::resume_job(name, options.resume);
  }
  return runtime::launch::launch(name, *parsed.options, command_line);
}
