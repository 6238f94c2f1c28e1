// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/rank_process.hpp"
#include "opal/core/sanitizer.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace runtime::guard {
namespace {

[[noreturn]] void give_up(int report, Step step, int os_errno) {
  const StartFailure failure{step, os_errno};
  // The parent sees a short read as `fork` with EIO, so a failed write here is not lost either.
  [[maybe_unused]] const ssize_t written = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// The mask that sched_setaffinity() takes; empty for no cpus.
std::vector<cpu_set_t> mask_of(const std::vector<std::uint32_t>& cpus) {
  if (cpus.empty()) return {};
  std::vector<cpu_set_t> mask(*std::ranges::max_element(cpus) / CPU_SETSIZE + 1);
  for (const std::uint32_t cpu : cpus) CPU_SET_S(cpu, mask.size() * sizeof(cpu_set_t), mask.data());
  return mask;
}

/// Returns a descriptor above 2: a lower one would be overwritten by the dup2() of another.
int above_stdio(int fd) { return fd > 2 ? fd : ::fcntl(fd, F_DUPFD_CLOEXEC, 3); }

/// The arguments when a shell has to run the program.
std::vector<char*> script_pointers(const SpawnPlan& plan) {
  const std::vector<char*> arguments = pointers(plan.arguments);
  std::vector<char*> script{const_cast<char*>("/bin/sh"), const_cast<char*>(plan.path.c_str())};
  script.insert(script.end(), arguments.begin() + (arguments.size() > 1 ? 1 : 0), arguments.end());
  return script;
}

/// The data of the process that becomes a rank.  That process shares the memory of the process guard until execve(), so
/// all memory is allocated before.
struct Birth {
  const SpawnPlan& plan;
  const Stdio& stdio;
  const SignalSet& ignored;
  const int report;
  const pid_t guard = ::getpid();
  const std::vector<char*> arguments = pointers(plan.arguments);
  const std::vector<char*> environment = pointers(plan.environment);
  const std::vector<cpu_set_t> cpus = mask_of(plan.cpus);
  const std::vector<char*> script = script_pointers(plan);
};

[[noreturn]] void become_rank(const Birth& birth) {
  const auto& [plan, stdio, ignored, report, guard, arguments, environment, cpus, script] = birth;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(127);  // it died before the line above
  if (!cpus.empty() && ::sched_setaffinity(0, cpus.size() * sizeof(cpu_set_t), cpus.data()) != 0) {
    give_up(report, Step::bind, errno);
  }
  if (!plan.working_directory.empty() && ::chdir(plan.working_directory.c_str()) != 0) {
    give_up(report, Step::chdir, errno);
  }
  const Stdio safe{above_stdio(stdio.in), above_stdio(stdio.out), above_stdio(stdio.err)};
  if (::dup2(safe.in, 0) < 0 || ::dup2(safe.out, 1) < 0 || ::dup2(safe.err, 2) < 0) {
    give_up(report, Step::exec, errno);
  }
  if (plan.open_files != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = plan.open_files;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  for (int signo = 1; signo < NSIG; ++signo) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    ::signal(signo, ignored[static_cast<std::size_t>(signo)] ? SIG_IGN : SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  ::execve(plan.path.c_str(), arguments.data(), environment.data());
  if (errno == ENOEXEC) {  // a script without "#!": what a shell does
    ::execve("/bin/sh", script.data(), environment.data());
  }
  give_up(report, Step::exec, errno);
}

constexpr bool kSanitized = OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER;

/// A process that becomes the rank; -1 as fork().
pid_t give_birth(const Birth& birth) {
  if constexpr (kSanitized) {  // sanitizers do not support a second stack in this thread
    const pid_t pid = ::fork();
    if (pid == 0) become_rank(birth);
    return pid;
  }
  // As posix_spawn(3): fork() would copy the process guard's page tables, which takes a third of the run time of a
  // small program.  The caller continues after the execve() or the exit of the process.
  alignas(16) static std::array<std::byte, 1U << 16> stack;
  const auto run = [](void* argument) -> int { become_rank(*static_cast<const Birth*>(argument)); };
  return ::clone(run, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, const_cast<Birth*>(&birth));
}

}  // namespace

Started start_rank(const SpawnPlan& plan, const Stdio& stdio, const SignalSet& ignored) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {0, StartFailure{Step::fork, errno}};
  Fd reader{ends[0]};
  Fd writer{ends[1]};
  const pid_t pid = give_birth({plan, stdio, ignored, writer.get()});
  if (pid < 0) return {0, StartFailure{Step::fork, errno}};
  ::setpgid(pid, pid);  // both processes call it, so neither sees the rank in the process guard's group
  writer.reset();       // exec closes the other copy
  StartFailure failure{};
  const ssize_t size = TEMP_FAILURE_RETRY(::read(reader.get(), &failure, sizeof failure));
  if (size == 0) return {pid, std::nullopt};
  ::waitpid(pid, nullptr, 0);
  if (size != sizeof failure) failure = {Step::fork, EIO};
  return {0, failure};
}

SignalSet ignored_signals() {
  SignalSet ignored;
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction action {};
    if (::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      ignored.set(static_cast<std::size_t>(signo));
    }
  }
  return ignored;
}

}  // namespace runtime::guard
