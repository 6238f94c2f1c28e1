// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/syscall_sites.hpp — finds the sites in loaded machine code that make the system calls of
// mapping_calls.hpp.  A site is "mov $number,%eax" followed by "syscall", with at most four moves between registers in
// between, or the "syscall" of libc's syscall(), where the number is in a register.  Other code is not recognised.
// Compilers keep the two instructions together because the number is an operand of the inline assembly.
// Threads: safe from any thread; the code is only read.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "opal/core/export.hpp"

namespace opal::memory {

struct SyscallSite {
  static constexpr std::size_t kReplaced = 5;  ///< bytes of the first instruction, which a jump replaces
  static constexpr std::int32_t kAnyNumber = -1;

  std::byte* start = nullptr;         ///< the first instruction
  std::byte* next = nullptr;          ///< the instruction after "syscall"
  std::int32_t number = 0;            ///< of the system call; kAnyNumber: eax has it at run time
  std::array<std::byte, 16> moves{};  ///< instructions that the trampoline executes first; position-independent
  std::size_t moves_size = 0;         ///< bytes of `moves` in use
};

/// The executable segments of a loaded shared object or program.
using CodeSegments = std::vector<std::span<std::byte>>;

/// Appends the sites in `code`, a segment of machine code, to `sites`.
OPAL_EXPORT void find_syscall_sites(std::span<std::byte> code, std::vector<SyscallSite>& sites);

/// The loaded objects to patch: the C library, the dynamic loader (dlclose unmaps with system calls of its own),
/// sanitizers (their allocators bypass libc), and UCX's hooks (their brk bypasses libc).
std::vector<CodeSegments> objects_to_patch();

}  // namespace opal::memory
