// SPDX-License-Identifier: Apache-2.0
// Shareable memory is private memory to the program: what each call does to it, and what a forked child finds.
#include "opal/memory/shareable.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/memory/events.hpp"
#include "opal/memory/monitor.hpp"

extern char** environ;

namespace opal::memory::shareable {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFrom = std::size_t{1} << 20;
constexpr std::size_t kAll = std::size_t{256} << 20;
constexpr std::size_t kSize = 3 * kFrom + kPage;

const Config kShareable{.shareable_from = {kFrom}, .shareable_size = {kAll}};

Range range_of(const void* at, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  return {begin, begin + size};
}
bool shareable(const void* at, std::size_t size) { return holds(range_of(at, size)); }

[[gnu::noinline]] std::byte* map(std::size_t size, int flags = 0) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

bool all_are(const std::byte* at, std::size_t size, int value) {
  for (std::size_t i = 0; i < size; ++i) {
    if (at[i] != static_cast<std::byte>(value)) return false;
  }
  return true;
}

/// The file's own bytes, as a peer has them.
class PeersView {
 public:
  explicit PeersView() {
    auto file = access();
    EXPECT_TRUE(file) << to_string(file.error());
    base_ = file->base;
    view_ = ::mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd.get(), 0);
    EXPECT_NE(view_, MAP_FAILED);
    fd_ = std::move(file->fd);
  }
  ~PeersView() { ::munmap(view_, kAll); }
  PeersView(const PeersView&) = delete;
  PeersView& operator=(const PeersView&) = delete;
  [[nodiscard]] std::byte* of(const void* at) const {
    return static_cast<std::byte*>(view_) + (reinterpret_cast<std::uintptr_t>(at) - base_);
  }
  /// Memory behind the file.
  [[nodiscard]] std::size_t bytes() const {
    struct stat status {};
    ::fstat(fd_.get(), &status);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }

 private:
  Fd fd_;
  std::uintptr_t base_ = 0;
  void* view_ = nullptr;
};

/// What a forked child says: its exit status, or 128 and the signal that ended it; -errno of fork().
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child < 0) return -errno;
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would end it with a status instead
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Shareable : public ::testing::Test {
 protected:
  void SetUp() override {
    start_monitor(kShareable);
    std::byte* const probe = map(kFrom);
    const bool there = shareable(probe, kFrom);
    ::munmap(probe, kFrom);
    if (!there) GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
    block = map(kSize);
    ASSERT_TRUE(shareable(block, kSize));
    std::memset(block, 1, kSize);
  }
  void TearDown() override {
    if (block != nullptr) ::munmap(block, kSize);
  }
  std::byte* block = nullptr;
};

TEST_F(Shareable, OnlyPlainLargePrivateMappingsAreMadeShareable) {
  EXPECT_FALSE(shareable(block - kPage, kPage));
  EXPECT_FALSE(shareable(block, kSize + kPage));
  std::byte* const small = map(kFrom - kPage);
  EXPECT_FALSE(shareable(small, 1));
  std::byte* const reserved = map(std::size_t{1} << 40, MAP_NORESERVE);
  ASSERT_NE(reserved, nullptr) << "a reservation stays one";
  EXPECT_FALSE(shareable(reserved, 1));
  void* const inaccessible = ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(shareable(inaccessible, 1));
  void* const shared = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(shareable(shared, 1));
  ::munmap(small, kFrom - kPage);
  ::munmap(reserved, std::size_t{1} << 40);
  ::munmap(inaccessible, kSize);
  ::munmap(shared, kSize);
}

TEST_F(Shareable, WhatAPeerMapsIsWhatTheProgramHas) {
  const PeersView peer;
  EXPECT_TRUE(all_are(peer.of(block), kSize, 1));
  peer.of(block)[kPage] = std::byte{7};
  EXPECT_EQ(block[kPage], std::byte{7});
}

TEST_F(Shareable, LargeBlocksOfMallocAreShareableBeforeAndAfterTheFirstFree) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer brings an allocator of its own";
#endif
  for (int round = 0; round < 50; ++round) {
    auto* const memory = static_cast<std::byte*>(std::malloc(2 * kFrom));
    ASSERT_TRUE(shareable(memory, 2 * kFrom)) << "round " << round;
    std::memset(memory, round, 2 * kFrom);
    std::free(memory);
    EXPECT_FALSE(shareable(memory, 1));
  }
  auto* const zeros = static_cast<std::byte*>(std::calloc(2, kFrom));
  ASSERT_TRUE(shareable(zeros, 2 * kFrom));
  EXPECT_TRUE(all_are(zeros, 2 * kFrom, 0)) << "calloc relies upon mappings being zero";
  std::free(zeros);
}

TEST_F(Shareable, MemoryGoesBackToTheSystemWithAnUnmappingThoughAPeerMapsIt) {
  const PeersView peer;
  EXPECT_TRUE(all_are(peer.of(block), kSize, 1));  // the peer's page tables know it
  const std::size_t before = peer.bytes();
  ASSERT_EQ(::munmap(block, kSize), 0);
  EXPECT_EQ(peer.bytes(), before - kSize);
  EXPECT_FALSE(shareable(block, 1));
  std::byte* const again = map(kSize);
  EXPECT_EQ(again, block) << "the lowest free place is taken";
  EXPECT_TRUE(all_are(again, kSize, 0));
}

TEST_F(Shareable, AnUnmappedPartIsGoneAndTheRestIsAsBefore) {
  const PeersView peer;
  const std::size_t before = peer.bytes();
  ASSERT_EQ(::munmap(block + 10 * kPage, 5 * kPage), 0);
  EXPECT_EQ(peer.bytes(), before - 5 * kPage);
  EXPECT_TRUE(shareable(block, 10 * kPage));
  EXPECT_FALSE(shareable(block, kSize));
  EXPECT_FALSE(shareable(block + 12 * kPage, 1));
  EXPECT_TRUE(shareable(block + 15 * kPage, kSize - 15 * kPage));
  EXPECT_TRUE(all_are(block, 10 * kPage, 1));
  EXPECT_EQ(in_child([&] { return all_are(block, 10 * kPage, 1) && all_are(block + 15 * kPage, kPage, 1) ? 0 : 1; }),
            0);
  EXPECT_EQ(in_child([&] { return static_cast<int>(block[12 * kPage]); }), 128 + SIGSEGV);
  EXPECT_EQ(::munmap(block + 1, kPage), -1) << "not a page";
  EXPECT_TRUE(shareable(block, kPage));
}

TEST_F(Shareable, WhatTheProgramMapsOverAPartIsItsOwn) {
  const PeersView peer;
  const std::size_t before = peer.bytes();
  void* const over =
      ::mmap(block + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(over, block + kPage);
  EXPECT_EQ(peer.bytes(), before - kPage);
  EXPECT_FALSE(shareable(over, kPage));
  EXPECT_TRUE(shareable(block + 2 * kPage, kPage));
  block[kPage] = std::byte{5};
  EXPECT_EQ(in_child([&] { return block[0] == std::byte{1} && block[kPage] == std::byte{5} ? 0 : 1; }), 0);
  EXPECT_EQ(::mmap(block, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, 9999, 0), MAP_FAILED);
  EXPECT_TRUE(shareable(block, kPage)) << "that call failed";
  // Taken places are not given away with what is free around them.
  ASSERT_EQ(::munmap(block, kPage), 0);
  ASSERT_EQ(::munmap(block + 2 * kPage, kSize - 2 * kPage), 0);
  std::vector<std::byte*> others;
  for (int i = 0; i < 4; ++i) others.push_back(map(kSize));
  EXPECT_EQ(block[kPage], std::byte{5});
  for (std::byte* other : others) {
    EXPECT_TRUE(other + kSize <= block + kPage || other >= block + 2 * kPage);
    ::munmap(other, kSize);
  }
}

TEST_F(Shareable, EmptiedPagesReadAsZerosHereAndForPeers) {
  const PeersView peer;
  const std::size_t before = peer.bytes();
  ASSERT_EQ(::madvise(block, kPage, MADV_DONTNEED), 0);
  ASSERT_EQ(::madvise(block + 2 * kPage, 2 * kPage, MADV_FREE), 0);
  EXPECT_TRUE(all_are(block, kPage, 0));
  EXPECT_TRUE(all_are(block + kPage, kPage, 1));
  EXPECT_TRUE(all_are(block + 2 * kPage, 2 * kPage, 0));
  EXPECT_TRUE(all_are(block + 4 * kPage, kPage, 1));
  EXPECT_TRUE(all_are(peer.of(block), kPage, 0));
  EXPECT_TRUE(shareable(block, kSize));
  // Reading a hole of a file gives it memory.
  ASSERT_EQ(::madvise(block, kSize, MADV_DONTNEED), 0);
  EXPECT_EQ(peer.bytes(), before - kSize);
  // A range with a hole: the kernel complains, but has done it.
  std::memset(block, 1, kSize);
  ASSERT_EQ(::munmap(block + 5 * kPage, kPage), 0);
  EXPECT_EQ(::madvise(block + 4 * kPage, 3 * kPage, MADV_DONTNEED), -1);
  EXPECT_TRUE(all_are(block + 4 * kPage, kPage, 0));
  EXPECT_TRUE(all_are(block + 6 * kPage, kPage, 0));
  // A range that holds other memory as well.
  std::memset(block, 1, 3 * kPage);
  ASSERT_NE(::mmap(block + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  block[kPage] = std::byte{1};
  ASSERT_EQ(::madvise(block, 3 * kPage, MADV_DONTNEED), 0);
  EXPECT_TRUE(all_are(block, 3 * kPage, 0));
}

TEST_F(Shareable, RightsAreThoseThatTheProgramSetsInAChildAsWell) {
  ASSERT_EQ(::mprotect(block, kPage, PROT_READ), 0);
  ASSERT_EQ(::mprotect(block + kPage, kPage, PROT_NONE), 0);
  ASSERT_EQ(::mprotect(block + 2 * kPage, kPage, PROT_READ | PROT_EXEC), 0);
  const auto check = [&] {
    EXPECT_EQ(in_child([&] { return block[0] == std::byte{1} ? 0 : 1; }), 0);
    EXPECT_EQ(in_child([&] { return (block[0] = std::byte{2}) == std::byte{2} ? 0 : 1; }), 128 + SIGSEGV);
    EXPECT_EQ(in_child([&] { return block[kPage] == std::byte{1} ? 0 : 1; }), 128 + SIGSEGV);
    EXPECT_EQ(in_child([&] { return (block[3 * kPage] = std::byte{2}) == std::byte{2} ? 0 : 1; }), 0);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(check(), 0);
  EXPECT_EQ(in_child(check), 0) << "and in its child";
  EXPECT_EQ(in_child([&] {
              ::mprotect(block + kPage, kPage, PROT_READ);
              return block[kPage] == std::byte{1} ? 0 : 1;
            }),
            0)
      << "what nobody could read is copied too";
  ASSERT_EQ(::mprotect(block, kSize, PROT_READ | PROT_WRITE), 0);
}

TEST_F(Shareable, AForkedChildAndItsParentDoNotSeeEachOthersWrites) {
  int to_child[2];
  int to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    if (!all_are(block, kSize, 1)) ::_exit(1);
    std::memset(block, 2, kSize);
    if (::write(to_parent[1], &byte, 1) != 1 || ::read(to_child[0], &byte, 1) != 1) ::_exit(2);
    ::_exit(all_are(block, kSize, 2) ? 0 : 3);
  }
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  EXPECT_TRUE(all_are(block, kSize, 1)) << "what the child has written";
  std::memset(block, 3, kSize);
  ASSERT_EQ(::write(to_child[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(all_are(block, kSize, 3));
  EXPECT_TRUE(shareable(block, kSize)) << "here it still is";
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

TEST_F(Shareable, AChildsMemoryIsPrivateAndItsChildrenHaveTheirOwn) {
  EXPECT_EQ(in_child([&] {
              if (shareable(block, kSize) || access()) return 1;
              std::byte* const fresh = map(kSize);
              if (fresh == nullptr || shareable(fresh, kSize)) return 2;
              std::memset(block, 2, kSize);
              const int grandchild = in_child([&] {
                if (!all_are(block, kSize, 2)) return 1;
                std::memset(block, 3, kSize);
                return ::munmap(block, kSize);
              });
              if (grandchild != 0) return 3;
              if (!all_are(block, kSize, 2)) return 4;
              // Calls on it are the kernel's own.
              if (::madvise(block, kSize, MADV_DONTNEED) != 0 || !all_are(block, kSize, 0)) return 5;
              return ::mremap(block, kSize, 2 * kSize, MREMAP_MAYMOVE) != MAP_FAILED ? 0 : 6;
            }),
            0);
  EXPECT_TRUE(all_are(block, kSize, 1));
}

TEST_F(Shareable, EveryWayToForkGivesTheChildItsCopyAndThoseThatShareMemoryNeedNone) {
  const auto child_of = [&](long pid) {
    if (pid == 0) {
      const bool right = all_are(block, kSize, 1);
      std::memset(block, 2, kSize);
      ::syscall(SYS_exit_group, right ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(static_cast<pid_t>(pid), &status, 0), pid);
    EXPECT_TRUE(all_are(block, kSize, 1));
    return status;
  };
  EXPECT_EQ(child_of(::syscall(SYS_fork)), 0);
  EXPECT_EQ(child_of(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)), 0);
  EXPECT_EQ(child_of(::syscall(SYS_clone, SIGCHLD | CLONE_FILES, nullptr, nullptr, nullptr, nullptr)), 0);
  EXPECT_TRUE(access()) << "the descriptor is still there";
#if __GLIBC_PREREQ(2, 34)
  EXPECT_EQ(child_of(::_Fork()), 0);
#endif
  const pid_t sharing = ::vfork();
  if (sharing == 0) ::_exit(block[kPage] == std::byte{1} ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(sharing, &status, 0), sharing);
  EXPECT_EQ(status, 0);
  char program[] = "/bin/true";
  char* const arguments[] = {program, nullptr};
  pid_t spawned = -1;
  ASSERT_EQ(::posix_spawn(&spawned, program, nullptr, nullptr, arguments, environ), 0);
  ASSERT_EQ(::waitpid(spawned, &status, 0), spawned);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(in_child([&] { return ::execl(program, program, nullptr); }), 0) << "exec in a forked child";
  EXPECT_TRUE(shareable(block, kSize));
}

/// clone() with a stack of the child's own: nothing of ours can come back on it.
TEST_F(Shareable, ACloneWithAStackOfItsOwnIsWithoutTheMemoryButNeverSharesIt) {
  std::vector<std::byte> stack(64 << 10);
  const pid_t child = ::clone(
      [](void* at) {
        *static_cast<volatile std::byte*>(at) = std::byte{2};
        return 0;
      },
      stack.data() + stack.size(), SIGCHLD, block);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_TRUE(all_are(block, kSize, 1));
}

TEST_F(Shareable, AForkWithoutMemoryForTheCopiesFailsAndChangesNothing) {
  EXPECT_EQ(in_child([] { return 0; }), 0);
  std::ifstream statm{"/proc/self/statm"};
  std::size_t pages = 0;
  statm >> pages;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight{pages * kPage + (kFrom), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const int refused = in_child([] { return 0; });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(refused, -ENOMEM);
  EXPECT_TRUE(all_are(block, kSize, 1));
  EXPECT_TRUE(shareable(block, kSize));
  EXPECT_EQ(in_child([&] { return all_are(block, kSize, 1) ? 0 : 1; }), 0);
}

TEST_F(Shareable, ASignalIsDeliveredInTheChildWhenItsMemoryIsThere) {
  static std::byte* watched = nullptr;
  static volatile std::sig_atomic_t seen = 0;
  watched = block;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { seen = watched[kPage] == std::byte{1} ? seen + 1 : -1000; };
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 100}, {0, 100}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([] {
                ::raise(SIGALRM);
                return seen > 0 ? 0 : 1;
              }),
              0);
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST_F(Shareable, AThreadWhoseStackIsShareableCanForkAndSoCanThatChild) {
  constexpr std::size_t kStack = 2 * kFrom;
  static ucontext_t outside, inside;
  static int outcome = -1;
  static std::byte* volatile elsewhere = nullptr;
  std::byte* const stack = map(kStack);
  ASSERT_TRUE(shareable(stack, kStack));
  elsewhere = stack;
  stack[0] = std::byte{9};
  ASSERT_EQ(::getcontext(&inside), 0);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = kStack;
  inside.uc_link = &outside;
  ::makecontext(
      &inside,
      [] {
        std::array<volatile int, 1000> values{};
        for (int i = 0; i < 1000; ++i) values[static_cast<std::size_t>(i)] = i;
        const auto right = [&] {
          for (int i = 0; i < 1000; ++i) {
            if (values[static_cast<std::size_t>(i)] != i) return 1;
          }
          return elsewhere[0] == std::byte{9} ? 0 : 2;
        };
        outcome = in_child([&] { return right() != 0 ? 1 : in_child(right); });
        if (outcome == 0) outcome = right();
      },
      0);
  ASSERT_EQ(::swapcontext(&outside, &inside), 0);
  EXPECT_EQ(outcome, 0);
  EXPECT_FALSE(shareable(stack, kStack)) << "it is private now";
  EXPECT_EQ(::munmap(stack, kStack), 0);
}

TEST_F(Shareable, GrowingMovesOrExtendsWithTheContentsAndStaysShareable) {
  for (std::size_t i = 0; i < kSize; i += kPage) block[i] = static_cast<std::byte>(i / kPage);
  const auto right = [](const std::byte* at) {
    for (std::size_t i = 0; i < kSize; i += kPage) {
      if (at[i] != static_cast<std::byte>(i / kPage)) return false;
    }
    return true;
  };
  auto* const extended = static_cast<std::byte*>(::mremap(block, kSize, 2 * kSize, 0));
  ASSERT_EQ(extended, block) << "there is room behind it";
  EXPECT_TRUE(shareable(block, 2 * kSize));
  EXPECT_TRUE(right(block));
  EXPECT_TRUE(all_are(block + kSize, kSize, 0));
  ASSERT_EQ(::mremap(block, 2 * kSize, kSize, 0), block);
  EXPECT_FALSE(shareable(block + kSize, 1));
  // Something else behind it.
  void* const wall = ::mmap(block + kSize, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(wall, block + kSize);
  EXPECT_EQ(::mremap(block, kSize, 2 * kSize, 0), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
  ASSERT_EQ(::mprotect(block, kSize, PROT_READ), 0);
  auto* const moved = static_cast<std::byte*>(::mremap(block, kSize, 2 * kSize, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_NE(moved, block);
  EXPECT_TRUE(shareable(moved, 2 * kSize));
  EXPECT_FALSE(shareable(block, 1));
  EXPECT_TRUE(right(moved));
  EXPECT_EQ(in_child([&] { return (moved[0] = std::byte{2}) == std::byte{2} ? 0 : 1; }), 128 + SIGSEGV)
      << "it has the rights of the old one";
  EXPECT_EQ(in_child([&] { return right(moved) ? 0 : 1; }), 0);
  ::munmap(wall, kPage);
  ::munmap(moved, 2 * kSize);
  block = nullptr;
}

TEST_F(Shareable, MovingToANamedPlaceMakesItPrivateAndMovingOverItReplacesIt) {
  std::byte* const place = map(kSize, MAP_NORESERVE);
  ASSERT_EQ(::mremap(block, kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, place), place);
  EXPECT_TRUE(all_are(place, kSize, 1));
  EXPECT_FALSE(shareable(place, 1));
  EXPECT_FALSE(shareable(block, 1));
  EXPECT_EQ(in_child([&] { return static_cast<int>(block[0]); }), 128 + SIGSEGV);
  std::byte* const other = map(kSize);
  ASSERT_TRUE(shareable(other, kSize));
  ASSERT_EQ(::mremap(place, kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, other), other);
  EXPECT_FALSE(shareable(other, 1));
  EXPECT_TRUE(all_are(other, kSize, 1));
  ::munmap(other, kSize);
  std::byte* const kept = map(kSize);
  std::memset(kept, 4, kSize);
  auto* const away = static_cast<std::byte*>(::mremap(kept, kSize, kSize, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */));
  ASSERT_NE(away, MAP_FAILED);
  EXPECT_TRUE(all_are(away, kSize, 4));
  EXPECT_TRUE(all_are(kept, kSize, 0));
  EXPECT_TRUE(shareable(kept, kSize));
  EXPECT_EQ(::mremap(kept, 0, kSize, MREMAP_MAYMOVE), MAP_FAILED) << "private memory cannot be seen twice";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::mremap(kept + 1, kPage, 2 * kPage, MREMAP_MAYMOVE), MAP_FAILED);
  ::munmap(away, kSize);
  ::munmap(kept, kSize);
  block = nullptr;
}

TEST_F(Shareable, AdviceAboutForksAndLocksIsTakenAsForPrivateMemory) {
  ASSERT_EQ(::madvise(block, kPage, MADV_DOFORK), 0);
  EXPECT_EQ(in_child([&] {
              block[0] = std::byte{2};
              return 0;
            }),
            0);
  EXPECT_EQ(block[0], std::byte{1}) << "nor did the child share it with us";
  EXPECT_EQ(::madvise(block, kSize, MADV_HUGEPAGE), 0);
  EXPECT_EQ(::madvise(block, kSize, MADV_NOHUGEPAGE), 0);
  EXPECT_EQ(::madvise(block, kSize, MADV_WILLNEED), 0);
  ASSERT_EQ(::mlock(block, 2 * kPage), 0);
  EXPECT_EQ(::madvise(block, kPage, MADV_DONTNEED), -1) << "locked pages are not emptied";
  EXPECT_TRUE(all_are(block, kPage, 1));
  ASSERT_EQ(::munlock(block, 2 * kPage), 0);
  ASSERT_EQ(::madvise(block + 4 * kPage, 2 * kPage, MADV_WIPEONFORK), 0);
  EXPECT_TRUE(all_are(block, kSize, 1));
  EXPECT_FALSE(shareable(block + 4 * kPage, 1)) << "the kernel wants private memory for that";
  EXPECT_EQ(in_child([&] {
              return all_are(block, 4 * kPage, 1) && all_are(block + 4 * kPage, 2 * kPage, 0) &&
                             all_are(block + 6 * kPage, kPage, 1)
                         ? 0
                         : 1;
            }),
            0);
}

TEST_F(Shareable, WhatTheKernelSaysAboutItNamesItAndDumpsIt) {
  std::ifstream smaps{"/proc/self/smaps"};
  std::string line;
  char start[32];
  std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(block));
  while (std::getline(smaps, line) && !line.starts_with(start)) {
  }
  EXPECT_THAT(line, ::testing::HasSubstr("/memfd:opal-private"));
  while (std::getline(smaps, line) && !line.starts_with("VmFlags:")) {
  }
  EXPECT_THAT(line, ::testing::HasSubstr(" dc")) << "not inherited by itself";
  EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr(" dd"))) << "part of core dumps";
}

TEST_F(Shareable, MemoryIsOnlyTakenWhenItIsTouchedAndLimitsOfTheSystemAnswerAsEver) {
  const PeersView peer;
  const std::size_t before = peer.bytes();
  std::byte* const sparse = map(kAll / 2);
  ASSERT_TRUE(shareable(sparse, kAll / 2));
  sparse[kAll / 4] = std::byte{1};
  EXPECT_EQ(peer.bytes(), before + kPage);
  EXPECT_EQ(in_child([&] {
              struct rusage usage {};
              ::getrusage(RUSAGE_SELF, &usage);
              return sparse[kAll / 4] == std::byte{1} && usage.ru_maxrss < static_cast<long>(kAll / 4 / 1024) ? 0 : 1;
            }),
            0)
      << "nor is what was never touched copied";
  std::byte* const private_rest = map(kAll);
  ASSERT_NE(private_rest, nullptr) << "without room the memory is private";
  EXPECT_FALSE(shareable(private_rest, 1));
  private_rest[0] = std::byte{1};
  ::munmap(private_rest, kAll);
  ::munmap(sparse, kAll / 2);
  EXPECT_EQ(map(std::size_t{1} << 46), nullptr) << "more than the machine has is refused as it is without us";
  EXPECT_EQ(errno, ENOMEM);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &limit), 0);
  const rlimit little{kPage, limit.rlim_max};  // none at all means no limit
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &little), 0);
  EXPECT_EQ(map(kSize), nullptr) << "it counts as data where the limit is tried";
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
}

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

TEST_F(Shareable, ThreadsThatAllocateWhileOthersForkGoOnAndChildrenFindWhatWasThere) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random{static_cast<unsigned>(t)};
      while (!stop.load(std::memory_order_relaxed)) {
        const std::size_t size = kFrom + random() % kFrom;
        auto* memory = static_cast<std::byte*>(std::malloc(size));
        if (memory[0] != std::byte{0} || memory[size - 1] != std::byte{0}) ++wrong;
        std::memset(memory, t + 10, size);
        auto* const larger = static_cast<std::byte*>(std::realloc(memory, 2 * size));
        if (!all_are(larger, size, t + 10)) ++wrong;
        std::memset(larger, 0, 2 * size);  // so that what stays in the heap is zero as well
        std::free(larger);
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(in_child([&] {
                if (!all_are(block, kSize, 1)) return 1;
                std::memset(block, 2, kSize);
                void* const mine = std::malloc(2 * kFrom);
                std::free(mine);
                return 0;
              }),
              0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(all_are(block, kSize, 1));
  const PeersView peer;
  EXPECT_LE(peer.bytes(), kSize + 4 * kFrom) << "what they freed has gone";
}

TEST_F(Shareable, ThreadsThatForkAtTheSameTimeEachGetARightChild) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) wrong += in_child([&] { return all_are(block, kSize, 1) ? 0 : 1; }) != 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Shareable, ARandomMixOfCallsMatchesPrivateMemory) {
  // The same calls on memory that is left alone (MAP_NORESERVE), page by page.
  constexpr std::size_t kPages = 320;
  std::mt19937 random{11};
  for (int round = 0; round < 20; ++round) {
    std::byte* const ours = map(kPages * kPage);
    std::byte* const model = map(kPages * kPage, MAP_NORESERVE);
    ASSERT_TRUE(shareable(ours, kPages * kPage));
    const auto both = [&](auto call) {
      const int first = call(ours);
      const int second = call(model);
      ASSERT_EQ(first, second);
    };
    for (int step = 0; step < 60; ++step) {
      const std::size_t at = random() % kPages * kPage;
      const std::size_t size = std::min((1 + random() % 40) * kPage, kPages * kPage - at);
      switch (random() % 6) {
        case 0: both([&](std::byte* base) { return ::madvise(base + at, size, MADV_DONTNEED); }); break;
        case 1:
          both([&](std::byte* base) {
            return ::mmap(base + at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                           base + at
                       ? 0
                       : -1;
          });
          break;
        case 2:
          both(
              [&](std::byte* base) { return ::mprotect(base + at, size, PROT_READ) | ::mprotect(base + at, size, 3); });
          break;
        default: {
          const int value = static_cast<int>(random() % 250);
          both([&](std::byte* base) { return std::memset(base + at, value, size) == nullptr ? 1 : 0; });
        }
      }
    }
    ASSERT_EQ(std::memcmp(ours, model, kPages * kPage), 0) << "round " << round;
    ASSERT_EQ(in_child([&] { return std::memcmp(ours, model, kPages * kPage) == 0 ? 0 : 1; }), 0);
    ::munmap(ours, kPages * kPage);
    ::munmap(model, kPages * kPage);
  }
}

}  // namespace
}  // namespace opal::memory::shareable
