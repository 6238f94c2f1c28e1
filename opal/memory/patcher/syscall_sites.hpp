// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/syscall_sites.hpp — finds the places in loaded machine code that make the system calls of
// mapping_calls.hpp. A place is "mov $number,%eax" followed by "syscall", with at most register moves between; and the
// one in libc's syscall(), where the number is in a register.  Nothing else is taken for one.  Compilers put the two
// instructions side by side because the number is an operand of the system call.  Threads: code is only read.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "opal/core/export.hpp"

namespace opal::memory {

struct SyscallSite {
  static constexpr std::size_t kReplaced = 5;  ///< bytes of the first instruction, which gives way to a jump
  static constexpr std::int32_t kAnyNumber = -1;

  std::byte* start = nullptr;         ///< of that instruction
  std::byte* next = nullptr;          ///< where execution goes on after the call
  std::int32_t number = 0;            ///< or kAnyNumber: it is in eax
  std::array<std::byte, 16> moves{};  ///< instructions between, which mean the same anywhere
  std::size_t moves_size = 0;
};

/// A loaded object whose code is searched.
struct CodeObject {
  std::string_view name;
  std::vector<std::span<std::byte>> code;
};

/// Sites in one run of machine code.
OPAL_EXPORT void find_syscall_sites(std::span<std::byte> code, std::vector<SyscallSite>& sites);

/// The objects that make such calls on behalf of programs: the C library, the dynamic loader (dlclose unmaps through a
/// copy of its own), sanitizers, whose allocators do not go through libc, and UCX's hooks, whose brk does not.
std::vector<CodeObject> objects_to_watch();

}  // namespace opal::memory
