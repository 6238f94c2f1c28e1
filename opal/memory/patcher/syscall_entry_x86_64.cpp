// SPDX-License-Identifier: Apache-2.0
// The code that trampolines call.  A system call preserves all registers but rax, rcx and r11, and compilers rely on
// this also for vector registers, which a C++ function does not preserve.  So it saves all registers around the call of
// C++, as the dynamic loader does when it resolves a symbol.
#include <cpuid.h>

#include <algorithm>
#include <cstdint>

#include "opal/core/sanitizer.hpp"
#include "opal/memory/address_space/mapping_calls.hpp"
#include "opal/memory/patcher/trampolines.hpp"

#if OPAL_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

// Used by the assembly below.  size: bytes of the save area.  mask: the state components for XSAVE; 0: the processor
// has no XSAVE, and FXSAVE saves all vector registers.
extern "C" {
__attribute__((visibility("hidden"))) std::uint64_t opal_memory_save_size = 512;
__attribute__((visibility("hidden"))) std::uint32_t opal_memory_save_mask = 0;
__attribute__((visibility("hidden"))) long opal_memory_system_call(const opal::memory::SystemCall* call) noexcept;
}

long opal_memory_system_call(const opal::memory::SystemCall* call) noexcept {
#if OPAL_ADDRESS_SANITIZER
  // A canceled thread leaves the marks of its frames behind, and calls madvise() for its stack when it ends.  The
  // assembly below does not clear them.
  __asan_unpoison_memory_region(call, sizeof *call);
#endif
  return opal::memory::perform(*call);
}

// On entry the registers are those of a system call, with the number in rax.  The pushes build a SystemCall on the
// stack, last member first.
asm(R"(
    .pushsection .text
    .p2align 4
    .globl opal_memory_syscall_entry
    .hidden opal_memory_syscall_entry
    .type opal_memory_syscall_entry, @function
opal_memory_syscall_entry:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %r9
    pushq %r8
    pushq %r10
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rax
    movq %rsp, %rdi
    subq opal_memory_save_size(%rip), %rsp
    andq $-64, %rsp
    cld
    movl opal_memory_save_mask(%rip), %eax
    testl %eax, %eax
    jz 1f
    xorl %edx, %edx
    movq %rdx, 512(%rsp)
    movq %rdx, 520(%rsp)
    movq %rdx, 528(%rsp)
    movq %rdx, 536(%rsp)
    movq %rdx, 544(%rsp)
    movq %rdx, 552(%rsp)
    movq %rdx, 560(%rsp)
    movq %rdx, 568(%rsp)
    xsave64 (%rsp)
    call opal_memory_system_call
    movq %rax, %rcx
    movl opal_memory_save_mask(%rip), %eax
    xorl %edx, %edx
    xrstor64 (%rsp)
    jmp 2f
1:
    fxsave64 (%rsp)
    call opal_memory_system_call
    movq %rax, %rcx
    fxrstor64 (%rsp)
2:
    leaq -56(%rbp), %rsp
    popq %rax
    popq %rdi
    popq %rsi
    popq %rdx
    popq %r10
    popq %r8
    popq %r9
    popq %rbp
    .cfi_def_cfa %rsp, 8
    movq %rcx, %rax
    ret
    .cfi_endproc
    .size opal_memory_syscall_entry, .-opal_memory_syscall_entry
    .popsection
)");

namespace opal::memory {

void prepare_syscall_entry() noexcept {
  static_assert(sizeof(SystemCall) == 56, "the assembly pushes it");
  constexpr std::uint32_t kOsXsave = 1U << 27;
  constexpr std::uint32_t kLeaf = 0xd;
  // x87, SSE, AVX, AVX-512.  Not tile registers (8 KB), which libc does not use around a system call, and not PKRU,
  // which contains access rights, not data.
  constexpr std::uint32_t kWanted = 0xe7;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return;
  std::uint32_t enabled = 0, high = 0;
  asm volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  std::uint64_t size = 512 + 64;
  for (std::uint32_t component = 2; component < 8; ++component) {
    if ((enabled & kWanted & 1U << component) == 0) continue;
    std::uint32_t bytes = 0, offset = 0;
    if (__get_cpuid_count(kLeaf, component, &bytes, &offset, &c, &d) == 0) return;
    size = std::max<std::uint64_t>(size, std::uint64_t{offset} + bytes);
  }
  opal_memory_save_size = size;
  opal_memory_save_mask = enabled & kWanted;
}

}  // namespace opal::memory
