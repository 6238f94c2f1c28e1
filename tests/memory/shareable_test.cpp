// SPDX-License-Identifier: Apache-2.0
// Shareable memory is private memory to the program: what each call that changes mappings does to it.
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/memory/shareable_fixture.hpp"

namespace opal::memory::shareable {
namespace {

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
  GTEST_SKIP() << "needs malloc of glibc: AddressSanitizer's maps by system calls of its own, and gives no zeros";
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
  // The call itself: AddressSanitizer's mlock() does nothing.
  ASSERT_EQ(::syscall(SYS_mlock, block, 2 * kPage), 0);
  EXPECT_EQ(::madvise(block, kPage, MADV_DONTNEED), -1) << "locked pages are not emptied";
  EXPECT_TRUE(all_are(block, kPage, 1));
  ASSERT_EQ(::syscall(SYS_munlock, block, 2 * kPage), 0);
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
  const auto most_kilobytes = [] {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long own = most_kilobytes();  // much of it shadow, under a sanitizer
  EXPECT_EQ(
      in_child([&] {
        return sparse[kAll / 4] == std::byte{1} && most_kilobytes() < own + static_cast<long>(kAll / 4 / 1024) ? 0 : 1;
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
