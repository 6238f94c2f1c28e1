// SPDX-License-Identifier: Apache-2.0
// tests/harness/stepper.hpp — executes a piece of code instruction by instruction and says what it consists of: how
// many instructions, how many of them lock the bus (atomic read-modify-writes, full fences), how many enter the kernel.
// Exact, the same on every run, and independent of load; needs nothing but ptrace.  x86-64 only.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

namespace opal::test {

struct Steps {
  std::uint64_t instructions = 0;
  std::uint64_t locked = 0;
  std::uint64_t system_calls = 0;
  std::uint64_t visits = 0;  ///< executions of the watched instruction
};

/// In `body` of count_steps: from here on instructions are counted, until the next call ends the piece.
inline void step_mark() noexcept {
#if defined(__x86_64__)
  asm volatile("int3" ::: "memory");
#endif
}

/// Runs `body` in a forked process and returns what lies between its 1st and 2nd mark, 3rd and 4th, ...  `watched`: the
/// address of an instruction, such as the first one of a function.  Nothing when this machine or processor does not
/// allow it, or the body ended badly.
std::optional<std::vector<Steps>> count_steps(const std::function<void()>& body, std::uint64_t watched = 0);

/// The address of the first instruction of a function that is not virtual.
template <class Function>
std::uint64_t address_of(Function function) noexcept {
  std::uint64_t address = 0;  // of the pointer to a member function, the Itanium ABI's first word
  static_assert(sizeof function >= sizeof address);
  std::memcpy(&address, &function, sizeof address);
  return address;
}

/// As count_steps(), but counts system calls alone, of the thread that runs `body`: pieces may be long.
std::optional<std::vector<std::uint64_t>> count_system_calls(const std::function<void()>& body);

/// Runs `body` in a forked process and kills it (SIGKILL) `steps` instructions after its first mark.
enum class Killed : std::uint8_t {
  there,      ///< killed between its first and its second mark
  at_end,     ///< it reached its second mark first, and was killed there
  not_at_all  ///< this machine or processor does not allow it, or the body ended before
};
Killed kill_after(const std::function<void()>& body, std::uint64_t steps);

}  // namespace opal::test
