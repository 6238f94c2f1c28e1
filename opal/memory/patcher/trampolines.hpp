// SPDX-License-Identifier: Apache-2.0
// opal/memory/patcher/trampolines.hpp — trampolines: one piece of code per system-call site, in executable memory near
// the code object.  It calls perform() of mapping_calls.hpp and jumps to the instruction after the site.  Registers,
// vector state and red zone are as after the system call itself.  While events.hpp has no listener, and no MappingTable
// is followed, it makes the system call itself.  Trampolines are never freed: a thread may be executing one at any
// time.
#pragma once
#include <span>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"

namespace opal::memory {

/// The jump to a trampoline, to be written over the first five bytes of a site.
struct Patch {
  std::byte* where = nullptr;  ///< SyscallSite::start
  std::array<std::byte, SyscallSite::kReplaced> bytes{};
};

/// Writes the trampolines for `sites` of `object`; the caller applies the patches.  Errors: no_space (no free addresses
/// within 1 GiB of the object), permission (the system refuses to make new memory executable).
OPAL_EXPORT Result<std::vector<Patch>> make_trampolines(const CodeSegments& object, std::span<const SyscallSite> sites);

/// Determines which vector registers the processor has.  Call it before the first patch is applied.
OPAL_EXPORT void prepare_syscall_entry() noexcept;

}  // namespace opal::memory

/// The assembly code that trampolines call: it saves the registers, calls perform() and restores them.  Not callable
/// from C++: its arguments are the registers of a system call.
extern "C" __attribute__((visibility("hidden"))) void opal_memory_syscall_entry();
