// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/stepper.hpp"

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace opal::test {
namespace {

#if defined(__x86_64__)

constexpr std::uint64_t kMostInstructions = 10'000'000;  // a piece that never ends is a failure, not a hang

struct Code {
  std::uint8_t bytes[8];
};

Code code_at(pid_t child, std::uint64_t address) {
  const long word = ::ptrace(PTRACE_PEEKTEXT, child, reinterpret_cast<void*>(address), nullptr);
  Code code{};
  std::memcpy(code.bytes, &word, sizeof code.bytes);
  return code;
}

void classify(const Code& code, Steps& steps) {
  ++steps.instructions;
  const std::uint8_t* byte = code.bytes;
  bool locked = false;
  while (*byte == 0xf0 || *byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || (*byte & 0xf0) == 0x40) {
    locked = locked || *byte == 0xf0;
    if (++byte == code.bytes + 4) break;
  }
  if ((byte[0] == 0x86 || byte[0] == 0x87) && (byte[1] & 0xc0) != 0xc0) locked = true;  // xchg with memory
  if (byte[0] == 0x0f && byte[1] == 0xae && byte[2] == 0xf0) locked = true;             // mfence
  if (locked) ++steps.locked;
  if (byte[0] == 0x0f && byte[1] == 0x05) ++steps.system_calls;
}

bool wait_for_trap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    if (WSTOPSIG(status) == SIGTRAP) return true;
    ::ptrace(PTRACE_CONT, child, nullptr, reinterpret_cast<void*>(static_cast<long>(WSTOPSIG(status))));
  }
  return false;
}

/// A child that stands before its `body`; -1 when that does not work here.
pid_t start_traced(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(2);
    ::raise(SIGTRAP);  // the parent knows that we are traced
    body();
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(PTRACE_O_EXITKILL));
  return child;
}

std::uint64_t instruction_pointer(pid_t child) {
  user_regs_struct registers{};
  ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  return registers.rip;
}

#endif

}  // namespace

std::optional<std::vector<Steps>> count_steps(const std::function<void()>& body, std::uint64_t watched) {
#if defined(__x86_64__)
  const pid_t child = start_traced(body);
  if (child < 0) return std::nullopt;
  std::vector<Steps> pieces;
  const auto give_up = [&]() -> std::optional<std::vector<Steps>> {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return std::nullopt;
  };
  int status = 0;
  for (;;) {
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
    if (::waitpid(child, &status, 0) != child) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? std::optional{pieces} : std::nullopt;
    if (WIFSIGNALED(status)) return std::nullopt;
    if (WSTOPSIG(status) != SIGTRAP) return give_up();
    Steps steps;
    for (std::uint64_t at = instruction_pointer(child);; at = instruction_pointer(child)) {
      const Code code = code_at(child, at);
      if (code.bytes[0] == 0xcc) break;
      classify(code, steps);
      if (at == watched) ++steps.visits;
      ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      if (!wait_for_trap(child) || steps.instructions > kMostInstructions) return give_up();
    }
    pieces.push_back(steps);
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);  // over the mark that ends the piece
    if (!wait_for_trap(child)) return give_up();
  }
#else
  (void)body;
  (void)watched;
  return std::nullopt;
#endif
}

std::optional<std::vector<std::uint64_t>> count_system_calls(const std::function<void()>& body) {
#if defined(__x86_64__)
  constexpr int kSystemCall = SIGTRAP | 0x80;
  const pid_t child = start_traced(body);
  if (child < 0) return std::nullopt;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD));
  std::vector<std::uint64_t> pieces;
  std::uint64_t stops = 0;  // at the entry of a call and at its return
  bool counting = false;
  int forwarded = 0;
  int status = 0;
  for (;;) {
    ::ptrace(counting ? PTRACE_SYSCALL : PTRACE_CONT, child, nullptr,
             reinterpret_cast<void*>(static_cast<long>(std::exchange(forwarded, 0))));
    if (::waitpid(child, &status, 0) != child || WIFSIGNALED(status)) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? std::optional{pieces} : std::nullopt;
    if (WSTOPSIG(status) == kSystemCall) {
      ++stops;
    } else if (WSTOPSIG(status) == SIGTRAP) {
      if (counting) pieces.push_back(stops / 2);
      stops = 0;
      counting = !counting;
    } else {
      forwarded = WSTOPSIG(status);
    }
  }
#else
  (void)body;
  return std::nullopt;
#endif
}

Killed kill_after(const std::function<void()>& body, std::uint64_t steps) {
#if defined(__x86_64__)
  const pid_t child = start_traced(body);
  if (child < 0) return Killed::not_at_all;
  Killed outcome = Killed::not_at_all;
  ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
  if (wait_for_trap(child)) {
    outcome = Killed::there;
    for (std::uint64_t i = 0; i < steps && outcome == Killed::there; ++i) {
      if (code_at(child, instruction_pointer(child)).bytes[0] == 0xcc) {
        outcome = Killed::at_end;
        break;
      }
      ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      if (!wait_for_trap(child)) outcome = Killed::not_at_all;
    }
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return outcome;
#else
  (void)body;
  (void)steps;
  return Killed::not_at_all;
#endif
}

}  // namespace opal::test
