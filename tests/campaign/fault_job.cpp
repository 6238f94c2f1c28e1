// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/fault_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "tests/campaign/symbols.hpp"

namespace opal::campaign {
namespace {

using runtime::test::LaunchedJob;

/// The bound on every job, from its start: opalrun ends a longer one with status 124.
constexpr const char* kBound = "40";

std::string path_of(const Step& step) {
  const std::filesystem::path programs = std::filesystem::path{OPALRUN_PATH}.parent_path();
  const std::string_view object = step.object;
  return (object == kLauncher || object == kDaemon ? programs : programs.parent_path() / "lib") / object;
}

pid_t unauthenticated(const std::string& file) {
  pid_t pid = 0;
  std::ifstream{file} >> pid;
  return pid;
}

/// As proc(5) has it: T is stopped, Z has ended.
char state_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::ostringstream text;
  text << file.rdbuf();
  const std::size_t end = text.str().rfind(')');
  return end == std::string::npos ? 'Z' : text.str().at(end + 2);
}

/// Waits until a process has reported to `file` and is stopped, and continues it; or until opalrun has ended.
void continue_stopped(LaunchedJob& job, const std::string& file) {
  runtime::test::eventually([&] {
    (void)job.output();  // which may be what opalrun waits for
    if (unauthenticated(file) != 0) {
      for (const pid_t pid : job.processes()) {
        if (state_of(pid) == 'T') return ::kill(pid, SIGCONT) == 0;
      }
    }
    return state_of(job.pid()) == 'Z';
  });
}

}  // namespace

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Result run(const Step& step, const std::string& action, const std::string& only, const std::string& mode,
           const Place& place) {
  const auto offset = offset_of(path_of(step), step.function);
  EXPECT_TRUE(offset.has_value()) << step.object << " has no single function " << step.function;
  Result result;
  if (!offset.has_value()) return result;
  const std::string file = fmt::format("{}/opal-visit-{}", ::testing::TempDir(), ::getpid());
  std::filesystem::remove(file);
  std::vector<std::string> prefix = place.prefix;
  prefix.insert(prefix.end(),
                {"env", "LD_PRELOAD=" FAIL_POINT_LIBRARY, only,
                 fmt::format("FAIL_POINT={} {:x} {} {} {}", step.object, *offset, step.visit, action, file)});
  std::vector<std::string> arguments{"-n",
                                     std::to_string(step.ranks),
                                     "--oversubscribe",
                                     "--timeout",
                                     kBound,
                                     "--set",
                                     fmt::format("am_transports={}", step.transports)};
  if (*step.set != '\0') arguments.insert(arguments.end(), {"--set", step.set});
  if (!mode.empty()) arguments.push_back(mode);
  arguments.insert(arguments.end(), place.options.begin(), place.options.end());
  arguments.insert(arguments.end(),
                   {fmt::format("{}/{}", CAMPAIGN_PROGRAMS, step.job), step.program, std::to_string(step.rounds)});
  if (action == "cut") arguments.emplace_back("abort");
  const auto begin = std::chrono::steady_clock::now();
  {
    LaunchedJob job{arguments, place.input, prefix};
    if (action == "stop") continue_stopped(job, file);
    result.outcome = job.wait();
    result.leftovers = job.leftovers();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.visited = unauthenticated(file);
  std::filesystem::remove(file);
  return result;
}

void add_row(const Step& step, const std::string& action, const std::string& side, const Result& result) {
  const char* const table = std::getenv("CAMPAIGN_TABLE");
  if (table == nullptr) return;
  const std::string& out = result.outcome.out;
  std::ofstream{table, std::ios::app} << fmt::format(
      "| `{}` | {} | {} | {} | {} | {} | {} | {} | {:.1f} |\n", step.function, step.transports, step.program, action,
      side, result.outcome.status, count(out, "survived"), count(out, "complete"), result.seconds);
}

std::string name_of(const Step& step) {
  std::string name = fmt::format("{}_{}_{}", step.function, step.program, step.transports + 5);
  for (const char* prefix : {"non-virtual thunk to ", "opal::btl::", "opal::", "mpi_shim::", "runtime::"}) {
    if (name.starts_with(prefix)) name.erase(0, std::string_view{prefix}.size());
  }
  // What the name of a test cannot have.
  std::erase_if(name, [](char c) { return std::string_view{":<> "}.find(c) != std::string_view::npos; });
  std::replace(name.begin(), name.end(), ',', '_');
  return name;
}

void PrintTo(const Step& step, std::ostream* out) { *out << step.object << " " << step.function; }

}  // namespace opal::campaign
