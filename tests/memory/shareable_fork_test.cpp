// SPDX-License-Identifier: Apache-2.0
// Shareable memory and forks: every child finds its own copy of what was there.
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/memory/shareable_fixture.hpp"

extern char** environ;

namespace opal::memory::shareable {
namespace {

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
        ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end it with a status instead
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
#if !defined(__SANITIZE_ADDRESS__)  // which fills what malloc() gives
        if (memory[0] != std::byte{0} || memory[size - 1] != std::byte{0}) ++wrong;
#endif
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

}  // namespace
}  // namespace opal::memory::shareable
