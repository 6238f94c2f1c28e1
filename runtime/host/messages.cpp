// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/messages.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>

namespace runtime::launch {

std::string signal_name(int signo) {
  const char* const name = sigabbrev_np(signo);
  return name == nullptr ? fmt::format("signal {}", signo) : fmt::format("SIG{}", name);
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signo = WTERMSIG(wait_status);
    return fmt::format("was killed by signal {} ({}){}", signo, signal_name(signo),
                       WCOREDUMP(wait_status) ? ", core dumped" : "");
  }
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

int exit_status_of(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string describe_refusal(int rank, guard::Step step, int os_errno, const std::string& program,
                             const std::string& directory) {
  const std::string why = std::strerror(os_errno);
  switch (step) {
    case guard::Step::fork: return fmt::format("cannot start rank {}: fork: {}", rank, why);
    case guard::Step::chdir: return fmt::format("cannot start rank {}: directory {}: {}", rank, directory, why);
    case guard::Step::bind: return fmt::format("cannot bind rank {}: {}; try --bind none", rank, why);
    case guard::Step::exec: return fmt::format("cannot start rank {}: {}: {}", rank, program, why);
    case guard::Step::plan: break;
  }
  return fmt::format("cannot start rank {}: handing it to the process guard failed: {}", rank, why);
}

std::string count_of_ranks(unsigned count) { return fmt::format("{} rank{}", count, count == 1 ? "" : "s"); }

std::string list_numbers(std::string_view what, std::span<const std::uint32_t> numbers) {
  std::string text = fmt::format("{}{} ", what, numbers.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (i > 0) text += ',';
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace runtime::launch
