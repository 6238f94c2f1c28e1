// SPDX-License-Identifier: Apache-2.0
// opald: opalrun starts it on the other hosts of a job.  It reads its parameters from stdin.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "runtime/daemon/opald.hpp"
#include "runtime/pmix/server.hpp"

namespace {

/// The first line of stdin without the newline; empty if stdin ends before it, or if it is too long.
std::string read_line() {
  std::string line;
  char c = 0;
  while (line.size() < runtime::daemon::kLongestBootstrap) {
    if (TEMP_FAILURE_RETRY(::read(0, &c, 1)) <= 0) return {};
    if (c == '\n') return line;
    line += c;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  // PMIx_Init in place of a rank that has ended before it connected.
  if (argc > 0 && argv[0] == runtime::pmix::kStandInName) runtime::pmix::stand_in();
  const std::span<char* const> command_line{argv, static_cast<std::size_t>(argc)};
  if (argc > 1 || ::isatty(0) == 1) {
    const std::string_view option = argc == 2 ? argv[1] : "";
    const bool version = option == "--version" || option == "-V";
    const bool asked = version || option == "--help" || option == "-h";
    std::fputs(version ? "opald (OPAL) 0.1.0\n"
                       : "opald is the daemon of a job on one of its hosts; opalrun starts it.\n"
                         "Usage: opald --version | --help\n",
               asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  const auto bootstrap = runtime::daemon::from_line(read_line());
  if (!bootstrap) {
    std::fprintf(stderr, "%s\n", opal::to_string(bootstrap.error()).c_str());
    return 1;
  }
  runtime::daemon::serve(*bootstrap, command_line);
}
