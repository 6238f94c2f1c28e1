// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/shared_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace opal::mpool {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Bytes of memory the kernel holds for the file.
std::size_t resident_bytes(int fd) {
  struct stat status {};
  EXPECT_EQ(::fstat(fd, &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

std::size_t free_hugetlb_pages() {
  std::ifstream info{"/proc/meminfo"};
  std::string word;
  std::size_t value = 0;
  while (info >> word) {
    if (word == "HugePages_Free:" && info >> value) return value;
  }
  return 0;
}

TEST(SharedPool, CommitsNothingUntilTheFirstBlockAndThenOneChunk) {
  auto pool = SharedPool::create("test", 256 * kMiB, {.chunk = 64 << 10});
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->usage().managed, 0u);
  EXPECT_EQ(pool->bytes().size(), 256 * kMiB);
  EXPECT_EQ(resident_bytes(pool->fd()), 0u);
  ASSERT_TRUE(pool->allocate(100));
  EXPECT_EQ(pool->usage().managed, 64u << 10);
  EXPECT_EQ(resident_bytes(pool->fd()), 64u << 10) << "committed means that the kernel has set the memory aside";
}

TEST(SharedPool, BlocksAreAlignedHereAndInTheFileAndAddressesAgreeWithOffsets) {
  auto pool = SharedPool::create("test", 64 * kMiB);
  ASSERT_TRUE(pool);
  for (std::size_t alignment = 1; alignment <= SharedPool::kMaxAlignment; alignment *= 2) {
    const auto block = pool->allocate(10, alignment);
    ASSERT_TRUE(block) << to_string(block.error());
    EXPECT_EQ(block->offset % alignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->address) % alignment, 0u);
    EXPECT_EQ(pool->bytes().data() + block->offset, block->address);
  }
  EXPECT_EQ(pool->allocate(10, SharedPool::kMaxAlignment * 2).error().code, Errc::invalid_argument);
  EXPECT_EQ(pool->allocate(10, 3).error().code, Errc::invalid_argument);
}

TEST(SharedPool, ABlockMayTakeAllOfTheVirtualSizeAndOneByteMoreIsLimitReached) {
  auto pool = SharedPool::create("test", 4 * kMiB);
  ASSERT_TRUE(pool);
  auto all = pool->allocate(4 * kMiB);
  ASSERT_TRUE(all);
  std::memset(all->address, 0x5a, 4 * kMiB);
  EXPECT_EQ(pool->allocate(1).error().code, Errc::limit_reached);
  ASSERT_TRUE(pool->deallocate(all->address));
  EXPECT_EQ(pool->allocate(4 * kMiB + 1).error().code, Errc::limit_reached);
  EXPECT_EQ(pool->allocate(SIZE_MAX).error().code, Errc::limit_reached);
  EXPECT_TRUE(pool->allocate(4 * kMiB));
}

TEST(SharedPool, GrowthUsesTheFreeMemoryAtTheEndOfTheCommittedPart) {
  auto pool = SharedPool::create("test", 4 * kMiB, {.chunk = kMiB});
  ASSERT_TRUE(pool);
  const auto first = pool->allocate(kMiB / 2);
  ASSERT_TRUE(first);
  const auto second = pool->allocate(3 * kMiB + kMiB / 2);
  ASSERT_TRUE(second) << "fits only if the half chunk left over is used";
  EXPECT_EQ(second->offset, kMiB / 2);
}

TEST(SharedPool, DoubleFreesAndForeignAddressesAreErrors) {
  auto pool = SharedPool::create("test", kMiB);
  ASSERT_TRUE(pool);
  const auto block = pool->allocate(256);
  ASSERT_TRUE(block);
  EXPECT_EQ(pool->deallocate(block->address + 64).error().code, Errc::invalid_argument);
  ASSERT_TRUE(pool->deallocate(block->address));
  EXPECT_EQ(pool->deallocate(block->address).error().code, Errc::invalid_argument);
  std::byte local{};
  EXPECT_EQ(pool->deallocate(&local).error().code, Errc::invalid_argument);
  EXPECT_EQ(pool->deallocate(nullptr).error().code, Errc::invalid_argument);
}

TEST(SharedPool, NothingOfTheBookkeepingIsInTheSharedBytes) {
  auto pool = SharedPool::create("test", kMiB, {.chunk = kMiB});
  ASSERT_TRUE(pool);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(pool->allocate(128 + i % 512)->address);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(pool->deallocate(blocks[i]));
  const auto bytes = pool->bytes();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SharedPool, TheSizeIsSealed) {
  auto pool = SharedPool::create("test", kMiB);
  ASSERT_TRUE(pool);
  EXPECT_EQ(::ftruncate(pool->fd(), 4096), -1);
  EXPECT_EQ(::ftruncate(pool->fd(), 2 * kMiB), -1);
  EXPECT_EQ(::fcntl(pool->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "nor can a peer add a seal against writing";
}

TEST(SharedPool, AttachRefusesWhatAPeerCouldShrink) {
  const int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, 4096), 0);
  EXPECT_EQ(SharedPool::attach(unsealed).error().code, Errc::protocol);
  ::close(unsealed);
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  EXPECT_EQ(SharedPool::attach(pipes[0]).error().code, Errc::protocol);
  ::close(pipes[0]);
  ::close(pipes[1]);
  EXPECT_FALSE(SharedPool::attach(-1));
}

TEST(SharedPool, APeerThatMappedOnceSeesAllLaterGrowth) {
  auto pool = SharedPool::create("test", 64 * kMiB, {.chunk = 64 << 10});
  ASSERT_TRUE(pool);
  int to_child[2];
  int to_parent[2];
  ASSERT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(to_parent, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // no gtest in here: report by exit status
    auto view = SharedPool::attach(pool->fd());
    if (!view || ::write(to_parent[1], "m", 1) != 1) ::_exit(1);
    std::uint64_t offset = 0;
    while (::read(to_child[0], &offset, sizeof offset) == sizeof offset && offset != UINT64_MAX) {
      if (offset + 8 > view->size()) ::_exit(2);
      std::uint64_t value = 0;
      std::memcpy(&value, view->data() + offset, 8);
      if (value != ~offset) ::_exit(3);
      std::memcpy(view->data() + offset, &offset, 8);
      if (::write(to_parent[1], "x", 1) != 1) ::_exit(4);
    }
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(to_parent[0], &answer, 1), 1);
  ASSERT_EQ(pool->usage().managed, 0u) << "the peer mapped before anything was committed";
  for (int i = 0; i < 100; ++i) {
    const auto block = pool->allocate(200 << 10);
    ASSERT_TRUE(block);
    const std::uint64_t value = ~block->offset;
    std::memcpy(block->address, &value, 8);
    ASSERT_EQ(::write(to_child[1], &block->offset, 8), 8);
    ASSERT_EQ(::read(to_parent[0], &answer, 1), 1);
    ASSERT_EQ(std::memcmp(block->address, &block->offset, 8), 0);
  }
  const std::uint64_t end = UINT64_MAX;
  ASSERT_EQ(::write(to_child[1], &end, 8), 8);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

/// Whether the page at `address` goes into a core dump.
bool is_dumped(const std::byte* address) {
  const auto wanted = reinterpret_cast<unsigned long>(address);
  std::ifstream smaps{"/proc/self/smaps"};
  unsigned long begin = 0;
  unsigned long end = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end);
    if (line.starts_with("VmFlags:") && begin <= wanted && wanted < end) return line.find(" dd") == std::string::npos;
  }
  ADD_FAILURE() << "not mapped";
  return false;
}

TEST(SharedPool, ACoreDumpHoldsWhatIsCommittedSoThatWritingItPutsNoMemoryBehindTheRest) {
  auto pool = *SharedPool::create("test", 16 * kMiB);
  const SharedBlock block = *pool.allocate(kMiB);
  EXPECT_TRUE(is_dumped(block.address));
  EXPECT_TRUE(is_dumped(block.address + kMiB - 1));
  EXPECT_FALSE(is_dumped(pool.bytes().data() + 8 * kMiB));
  const auto peers = *SharedPool::attach(pool.fd());
  EXPECT_FALSE(is_dumped(peers.data() + block.offset)) << "that is the owner's business";
}

TEST(SharedPool, TooFewHugePagesAreAnErrorAndNoSigbus) {
  const std::size_t pages = free_hugetlb_pages() + 1;
  auto pool = SharedPool::create("test", pages * 2 * kMiB, {.chunk = 2 * kMiB, .hugetlb = true});
  if (!pool) {
    EXPECT_EQ(pool.error().code, Errc::os) << to_string(pool.error());
    return;
  }
  EXPECT_EQ(pool->allocate(pages * 2 * kMiB).error().code, Errc::no_space);
  EXPECT_EQ(pool->usage().managed, 0u) << "a failed commit leaves nothing behind";
}

TEST(SharedPool, InvalidSizesAreRefused) {
  EXPECT_EQ(SharedPool::create("test", 0).error().code, Errc::invalid_argument);
  EXPECT_EQ(SharedPool::create("test", SIZE_MAX).error().code, Errc::invalid_argument);
  EXPECT_EQ(SharedPool::create("test", kMiB, {.chunk = 0}).error().code, Errc::invalid_argument);
}

TEST(SharedPool, LiveBlocksNeverOverlapAndKeepTheirBytesOverARandomTrace) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  auto pool = SharedPool::create("test", 8 * kMiB, {.chunk = 16 << 10});
  ASSERT_TRUE(pool);
  struct Live {
    SharedBlock block;
    std::size_t size;
    unsigned char fill;
  };
  std::vector<Live> live;
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() < 200 && random() % 2 == 0) {
      const std::size_t size = random() % (random() % 10 == 0 ? 100'000 : 2'000) + 1;
      const auto block = pool->allocate(size, std::size_t{1} << (random() % 13));
      if (!block) {
        ASSERT_EQ(block.error().code, Errc::limit_reached);
        continue;
      }
      ASSERT_LE(block->offset + size, pool->usage().managed);
      const auto fill = static_cast<unsigned char>(random());
      std::memset(block->address, fill, size);
      live.push_back({*block, size, fill});
    } else if (!live.empty()) {
      const std::size_t index = random() % live.size();
      const Live gone = live[index];
      const auto* bytes = reinterpret_cast<const unsigned char*>(gone.block.address);
      ASSERT_TRUE(std::all_of(bytes, bytes + gone.size, [&](unsigned char b) { return b == gone.fill; })) << step;
      ASSERT_TRUE(pool->deallocate(gone.block.address));
      live[index] = live.back();
      live.pop_back();
    }
  }
  EXPECT_EQ(pool->usage().blocks, live.size());
}

TEST(SharedPool, ThreadsAllocateAndFreeAtTheSameTime) {
  auto pool = SharedPool::create("test", 64 * kMiB, {.chunk = 16 << 10});
  ASSERT_TRUE(pool);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random{id};
      std::vector<SharedBlock> mine;
      for (int step = 0; step < 5'000; ++step) {
        if (mine.size() < 20) {
          const auto block = pool->allocate(8 + random() % 3000);
          if (!block) {
            ++failures;
            continue;
          }
          std::memset(block->address, static_cast<int>(id), 8);
          mine.push_back(*block);
        } else {
          const SharedBlock block = mine[random() % mine.size()];
          if (*block.address != std::byte(id) || !pool->deallocate(block.address)) ++failures;
          std::erase_if(mine, [&](const SharedBlock& b) { return b.offset == block.offset; });
        }
      }
      for (const auto& block : mine) {
        if (!pool->deallocate(block.address)) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(pool->usage().used, 0u);
}

}  // namespace
}  // namespace opal::mpool
