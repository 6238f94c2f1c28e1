// SPDX-License-Identifier: Apache-2.0
// Sites found in machine code written here, and what their trampolines do to registers, stack and memory events.
#include "opal/memory/patcher/trampolines.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "opal/core/system/mapping.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/patcher/code_changes.hpp"

namespace opal::memory {
namespace {

std::vector<SyscallSite> sites_in(std::vector<unsigned char>& code) {
  std::vector<SyscallSite> sites;
  find_syscall_sites(std::as_writable_bytes(std::span{code}), sites);
  return sites;
}

TEST(SyscallSites, ANumberFollowedByTheCallIsASite) {
  std::vector<unsigned char> code{0x90, 0xb8, 11, 0, 0, 0, 0x0f, 0x05, 0xc3};
  const auto sites = sites_in(code);
  ASSERT_EQ(sites.size(), 1u);
  EXPECT_EQ(sites[0].number, SYS_munmap);
  EXPECT_EQ(sites[0].start, reinterpret_cast<std::byte*>(&code[1]));
  EXPECT_EQ(sites[0].next, reinterpret_cast<std::byte*>(&code[8]));
}

TEST(SyscallSites, RegisterMovesMayStandBetween) {
  // mov $25,%eax; mov %r9,%r10; mov %rbx,%r8; syscall: as a sanitizer's mremap has it
  std::vector<unsigned char> code{0xb8, 25, 0, 0, 0, 0x4d, 0x89, 0xca, 0x49, 0x89, 0xd8, 0x0f, 0x05};
  const auto sites = sites_in(code);
  ASSERT_EQ(sites.size(), 1u);
  EXPECT_EQ(sites[0].moves_size, 6u);
}

TEST(SyscallSites, WhatIsNotCertainlyAMappingCallIsLeftAlone) {
  std::vector<unsigned char> other_call{0xb8, 1, 0, 0, 0, 0x0f, 0x05};
  EXPECT_TRUE(sites_in(other_call).empty());
  std::vector<unsigned char> changes_the_number{0xb8, 11, 0, 0, 0, 0x48, 0x89, 0xd8, 0x0f, 0x05};  // mov %rbx,%rax
  EXPECT_TRUE(sites_in(changes_the_number).empty());
  std::vector<unsigned char> memory_between{0xb8, 11, 0, 0, 0, 0x48, 0x8b, 0x3f, 0x0f, 0x05};  // mov (%rdi),%rdi
  EXPECT_TRUE(sites_in(memory_between).empty());
  std::vector<unsigned char> cut_off{0x00, 0x00, 0x00, 0x0f, 0x05};
  EXPECT_TRUE(sites_in(cut_off).empty());
}

struct Heard final : Listener {
  void released(Range range) noexcept override {
    last = range;
    ++count;
    // What a listener may leave in registers that system calls keep.
    asm volatile("vpcmpeqd %%ymm0,%%ymm0,%%ymm0; vpcmpeqd %%ymm15,%%ymm15,%%ymm15" ::: "xmm0", "xmm15");
  }
  Range last;
  int count = 0;
};

/// Code of our own in a mapping of its own, patched as libc is.
class PatchedCode : public ::testing::Test {
 protected:
  void SetUp() override {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs avx2: a processor with wide vector registers";
    prepare_syscall_entry();
    void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    code = Mapping::adopt({static_cast<std::byte*>(at), 4096});
  }
  void install(std::vector<unsigned char> bytes) {
    std::memcpy(code.data(), bytes.data(), bytes.size());
    std::vector<SyscallSite> sites;
    find_syscall_sites(code.bytes(), sites);
    ASSERT_EQ(sites.size(), 1u);
    const auto patches = make_trampolines({code.bytes()}, sites);
    ASSERT_TRUE(patches) << to_string(patches.error());
    std::copy(patches->at(0).bytes.begin(), patches->at(0).bytes.end(), patches->at(0).where);
  }
  Mapping code;
};

TEST_F(PatchedCode, KeepsEveryRegisterAndTheRedZoneAroundTheListener) {
  install({0xb8, 11, 0, 0, 0, 0x0f, 0x05, 0xc3});  // munmap, without a look at the stack
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Heard listener;
  ASSERT_TRUE(add_listener(listener));
  alignas(32) std::uint64_t ymm[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  alignas(32) std::uint64_t after[2][4] = {};
  std::uint64_t general[6] = {};
  long result = -1;
  asm volatile(
      "vmovdqa (%[ymm]), %%ymm0\n vmovdqa 32(%[ymm]), %%ymm15\n"
      "movq $0x1111, %%rdx\n movq $0x2222, %%r8\n movq $0x3333, %%r9\n movq $0x4444, %%r10\n"
      "leaq -256(%%rsp), %%rsp\n"   // the compiler's own red zone
      "movq $0x5555, -24(%%rsp)\n"  // below what the call instruction itself overwrites
      "call *%[code]\n"
      "movq -24(%%rsp), %%r11\n movq %%r11, 40(%[general])\n"
      "leaq 256(%%rsp), %%rsp\n"
      "vmovdqa %%ymm0, (%[after])\n vmovdqa %%ymm15, 32(%[after])\n"
      "movq %%rdx, (%[general])\n movq %%r8, 8(%[general])\n movq %%r9, 16(%[general])\n movq %%r10, 24(%[general])\n"
      "movq %%rdi, 32(%[general])\n"
      : "=&a"(result)
      : "D"(page), "S"(4096L), [code] "r"(code.data()), [ymm] "r"(ymm), [after] "r"(after), [general] "r"(general)
      : "rcx", "rdx", "r8", "r9", "r10", "r11", "xmm0", "xmm15", "memory");
  remove_listener(listener);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(listener.count, 1);
  EXPECT_EQ(listener.last, Range::pages(reinterpret_cast<std::uintptr_t>(page), 4096));
  EXPECT_EQ(std::memcmp(ymm, after, sizeof ymm), 0);
  EXPECT_EQ(general[0], 0x1111u);
  EXPECT_EQ(general[1], 0x2222u);
  EXPECT_EQ(general[2], 0x3333u);
  EXPECT_EQ(general[3], 0x4444u);
  EXPECT_EQ(general[4], reinterpret_cast<std::uint64_t>(page));
  EXPECT_EQ(general[5], 0x5555u);
}

// The jump goes to one of two functions; their displacements differ in each byte.  A thread that executed a mixture of
// the two, or of a jump and half of another instruction, would end somewhere else.
TEST_F(PatchedCode, ThreadsExecuteTheOldOrTheNewJumpWhileItChanges) {
  constexpr std::size_t kFar = 0x01020300;
  void* const at = ::mmap(nullptr, kFar + 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  const Mapping memory = Mapping::adopt({static_cast<std::byte*>(at), kFar + 4096});
  std::byte* const site = memory.data() + 0x0f;
  const auto jump_to = [&](std::byte* target, unsigned char result) {
    const unsigned char function[] = {0xb8, result, 0, 0, 0, 0xc3};  // mov $result,%eax; ret
    std::memcpy(target, function, sizeof function);
    Patch patch{site, {}};
    const auto distance = static_cast<std::int32_t>(target - (site + patch.bytes.size()));
    patch.bytes[0] = std::byte{0xe9};
    std::memcpy(&patch.bytes[1], &distance, sizeof distance);
    return patch;
  };
  const Patch patches[] = {jump_to(memory.data() + 0x80, 1), jump_to(memory.data() + kFar, 2)};
  std::copy(patches[0].bytes.begin(), patches[0].bytes.end(), site);
  const auto call = reinterpret_cast<int (*)()>(site);
  std::atomic<bool> stop{false};
  std::atomic<int> seen{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) seen |= call();
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    const auto changed = replace_while_threads_run({&patches[(i + 1) % 2], 1});
    if (!changed) {
      stop = true;
      for (std::thread& thread : threads) thread.join();
      GTEST_SKIP() << "needs membarrier: " << to_string(changed.error());
    }
    EXPECT_EQ(call(), (i + 1) % 2 + 1);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 3) << "both functions were called";
}

TEST_F(PatchedCode, TheKernelsErrorComesThroughAndErrnoStays) {
  install({0xb8, 11, 0, 0, 0, 0x0f, 0x05, 0xc3});
  Heard listener;
  ASSERT_TRUE(add_listener(listener));
  errno = 123;
  const auto call = reinterpret_cast<long (*)(long, long)>(code.data());
  EXPECT_EQ(call(0x1001, 4096), -EINVAL);
  EXPECT_EQ(errno, 123);
  remove_listener(listener);
}

TEST_F(PatchedCode, TheGenericCallReportsMappingCallsAndPassesOthersOn) {
  // libc's syscall(): number and six arguments moved into place, the last one from the stack
  install({0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d,
           0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05, 0xc3});
  const auto call = reinterpret_cast<long (*)(long, ...)>(code.data());
  Heard listener;
  ASSERT_TRUE(add_listener(listener));
  EXPECT_EQ(call(SYS_getpid), ::getpid());
  EXPECT_EQ(call(100000), -ENOSYS);
  EXPECT_EQ(call(-1L), -ENOSYS);
  EXPECT_EQ(listener.count, 0);
  const long page = call(SYS_mmap, nullptr, 4096L, static_cast<long>(PROT_READ),
                         static_cast<long>(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
  ASSERT_GT(page, 0);
  EXPECT_EQ(call(SYS_munmap, page, 4096L), 0);
  EXPECT_EQ(listener.count, 1);
  remove_listener(listener);
}

}  // namespace
}  // namespace opal::memory
