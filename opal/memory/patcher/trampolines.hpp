// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/trampolines.hpp — executable memory near a code object, with one small piece of code per
// system-call site: it hands the call to mapping_calls.hpp and goes on behind the site.  Registers, flags of the vector
// unit and the red zone are as the kernel would have left them.  While there is no listener it makes the system call
// itself. Never freed: some thread may be in there as long as the process lives.
#pragma once
#include <span>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"

namespace opal::memory {

/// What the five bytes at a site become: a jump to its trampoline.
struct Patch {
  std::byte* where = nullptr;
  std::array<std::byte, SyscallSite::kReplaced> bytes{};
};

/// Writes trampolines for the sites of one object.  Errors: no_space (no free addresses within 2 GB of it), permission
/// (this system refuses to make new memory executable).
OPAL_EXPORT Result<std::vector<Patch>> make_trampolines(const CodeObject& object, std::span<const SyscallSite> sites);

/// Finds out what this processor has to save.  Before the first trampoline is reachable.
OPAL_EXPORT void prepare_syscall_entry() noexcept;

}  // namespace opal::memory

/// The way from a trampoline, which has a system call's registers, into C++ and back; not a function of C++.
extern "C" __attribute__((visibility("hidden"))) void opal_memory_syscall_entry();
