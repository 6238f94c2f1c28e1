// SPDX-License-Identifier: Apache-2.0
// Shareable memory where the system, or the program that closes descriptors, does not let it be: programs have private
// memory as ever.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/memory/shareable_fixture.hpp"

extern char** environ;

namespace opal::memory::shareable {
namespace {

TEST_F(Shareable, WithoutDescriptorsMemoryIsMappedAsEver) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::byte* const more = map(kSize);
  const auto denied = access();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(shareable(more, kSize)) << "one descriptor serves all";
  ASSERT_FALSE(denied);
  EXPECT_THAT(denied.error().os_errno, ::testing::AnyOf(EMFILE, EINVAL));
  ::munmap(more, kSize);
}

/// Tests of a process that is not a child, and of a refusal that cannot be taken back: each in a program of its own.
int run_alone(const std::string& test) {
  std::string self = "/proc/self/exe";
  std::string filter = "--gtest_filter=" + test;
  std::string also = "--gtest_also_run_disabled_tests";
  char* const arguments[] = {self.data(), filter.data(), also.data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ), 0);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Shareable, AProgramThatClosesEveryDescriptorLosesNoMemoryAndNoFileOfItsOwnIsTouched) {
  EXPECT_EQ(run_alone("ClosedDescriptors.*"), 0);
}

TEST_F(Shareable, WhateverTheSystemRefusesProgramsHavePrivateMemoryAndChildrenHaveTheirCopies) {
  EXPECT_EQ(run_alone("Refused.DISABLED_MemoryFiles"), 0);
  EXPECT_EQ(run_alone("Refused.DISABLED_SizesThatWouldMakeEveryMallocAMapping"), 0);
  EXPECT_EQ(run_alone("Refused.DISABLED_SharedMappings"), 0);
  EXPECT_EQ(run_alone("Refused.DISABLED_AdviceAboutForks"), 0);
  EXPECT_EQ(run_alone("Refused.DISABLED_SharedMappingsLater"), 0);
}

/// From now on `call` is refused with EPERM where the lower half of argument `argument` has one of `bits`.
void refuse(long call, unsigned argument, unsigned bits) {
  const auto number = static_cast<unsigned>(call);
  const auto offset = static_cast<unsigned>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void memory_is_private_and_forked_as_ever() {
  std::byte* const block = map(kSize);
  ASSERT_NE(block, nullptr);
  EXPECT_FALSE(shareable(block, 1));
  std::memset(block, 1, kSize);
  EXPECT_EQ(in_child([&] {
              const bool right = all_are(block, kSize, 1);
              std::memset(block, 2, kSize);
              return right ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(all_are(block, kSize, 1));
  ASSERT_EQ(::munmap(block, kSize), 0);
}

TEST(Refused, DISABLED_SizesThatWouldMakeEveryMallocAMapping) {
  start_monitor({.shareable_from = {4096}, .shareable_size = {kAll}});
  memory_is_private_and_forked_as_ever();
}

TEST(Refused, DISABLED_MemoryFiles) {
  refuse(SYS_memfd_create, 1, ~0U);
  start_monitor(kShareable);
  memory_is_private_and_forked_as_ever();
}

TEST(Refused, DISABLED_SharedMappings) {
  refuse(SYS_mmap, 3, MAP_SHARED);
  start_monitor(kShareable);
  memory_is_private_and_forked_as_ever();
}

TEST(Refused, DISABLED_AdviceAboutForks) {
  static_assert(MADV_DONTFORK == 10 && MADV_DOFORK == 11);
  refuse(SYS_madvise, 2, 8);
  start_monitor(kShareable);
  memory_is_private_and_forked_as_ever();
}

TEST(Refused, DISABLED_SharedMappingsLater) {
  start_monitor(kShareable);
  std::byte* const before = map(kSize);
  ASSERT_TRUE(shareable(before, kSize));
  std::memset(before, 3, kSize);
  refuse(SYS_mmap, 3, MAP_SHARED);
  memory_is_private_and_forked_as_ever();
  EXPECT_EQ(in_child([&] { return all_are(before, kSize, 3) ? 0 : 1; }), 0);
  auto* const grown = static_cast<std::byte*>(::mremap(before, kSize, 2 * kSize, MREMAP_MAYMOVE));
  ASSERT_NE(grown, MAP_FAILED);
  EXPECT_TRUE(all_are(grown, kSize, 3));
  EXPECT_TRUE(all_are(grown + kSize, kSize, 0));
}

TEST(ClosedDescriptors, DISABLED_AreNotUsed) {
  start_monitor(kShareable);
  std::byte* const block = map(kSize);
  ASSERT_TRUE(shareable(block, kSize));
  std::memset(block, 1, kSize);
  for (int fd = 3; fd < 64; ++fd) ::close(fd);
  std::array<int, 61> files{};
  for (int& file : files) {
    file = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::pwrite(file, block, kSize, 0), static_cast<ssize_t>(kSize));
  }
  EXPECT_FALSE(access());
  std::byte* const fresh = map(kSize);
  EXPECT_FALSE(shareable(fresh, 1));
  EXPECT_EQ(in_child([] { return 0; }), -ENOMEM) << "better no child than one without its memory";
  ASSERT_EQ(::munmap(block, kSize), 0);
  std::vector<std::byte> contents(kSize);
  for (const int file : files) {
    ASSERT_EQ(::pread(file, contents.data(), kSize, 0), static_cast<ssize_t>(kSize));
    EXPECT_TRUE(all_are(contents.data(), kSize, 1)) << "a hole was made in a file of the program";
    ::close(file);
  }
}

}  // namespace
}  // namespace opal::memory::shareable
