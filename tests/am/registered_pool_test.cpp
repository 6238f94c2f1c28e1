// SPDX-License-Identifier: Apache-2.0
// Memory that devices know before it is used: it grows, shrinks, and needs no registration of its own.
#include "opal/am/memory/registered_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kSize = 20'000;

class RegisteredMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    to_b = *connected;
    auto opened = am::RegisteredPool::open(*a.context);
    ASSERT_TRUE(opened);
    pool = std::move(*opened);
    auto registered = b.context->register_memory(target.data(), target.size(), Rights::all);
    ASSERT_TRUE(registered);
    region = std::move(*registered);
    key = *to_b->unpack_key(region.key());
  }
  Error put(const std::byte* from) {
    return finish(
        [&](Completion& done) {
          return to_b->put(from, reinterpret_cast<std::uint64_t>(target.data()), key, kSize, done);
        },
        *a.context, *b.context);
  }
  /// Of a's device.
  [[nodiscard]] std::uint64_t missed() const { return a.context->registration_statistics().misses; }

  Side a{"sim"};
  Side b{"sim"};
  am::Endpoint* to_b = nullptr;
  std::unique_ptr<am::RegisteredPool> pool;
  std::vector<std::byte> target = std::vector<std::byte>(kSize);
  am::Region region;
  MemoryHandle key;
};

TEST_F(RegisteredMemory, PutsFromItsBlocksAndTheirExposureRegisterNothing) {
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 100; ++i) {
    const auto block = pool->allocate(kSize, 64);
    ASSERT_TRUE(block) << to_string(block.error());
    std::memset(*block, i, kSize);
    blocks.push_back(*block);
  }
  const std::uint64_t slabs = missed();
  EXPECT_GE(slabs, 100 * kSize / am::RegisteredPool::kSlab);
  EXPECT_LT(slabs, 100U) << "blocks share registrations";
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(put(blocks[i]).code, Errc{});
    ASSERT_EQ(target[kSize - 1], static_cast<std::byte>(i));
    ASSERT_TRUE(to_b->expose(blocks[i], kSize, Rights::remote_read));
  }
  EXPECT_EQ(missed(), slabs);
  std::vector<std::byte> other(kSize);
  ASSERT_TRUE(to_b->expose(other.data(), kSize, Rights::remote_read));
  EXPECT_EQ(missed(), slabs + 1) << "what a block of the heap costs";
  for (std::byte* block : blocks) EXPECT_TRUE(pool->deallocate(block));
}

TEST_F(RegisteredMemory, ItGrowsAndShrinksWithWhatIsInUseAndEveryBlockIsKnownToTheDevice) {
  std::mt19937 random{5};
  std::vector<std::byte*> blocks;
  std::size_t most = 0;
  for (int wave = 0; wave < 3; ++wave) {
    while (blocks.size() < 2000) {
      const auto block = pool->allocate(kSize);
      ASSERT_TRUE(block);
      blocks.push_back(*block);
    }
    most = std::max(most, pool->usage().managed);
    while (blocks.size() > 20) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_TRUE(pool->deallocate(blocks.back()));
      blocks.pop_back();
    }
    EXPECT_LT(pool->usage().managed, most) << "some slabs have gone";
    const std::uint64_t before = missed();
    for (std::byte* block : blocks) ASSERT_TRUE(to_b->expose(block, kSize, Rights::remote_read));
    EXPECT_EQ(missed(), before);
  }
  for (std::byte* block : blocks) ASSERT_TRUE(pool->deallocate(block));
  pool->trim();
  EXPECT_EQ(pool->usage().managed, 0U);
  EXPECT_FALSE(pool->deallocate(blocks[0]));
  std::vector<std::byte> other(kSize);
  ASSERT_TRUE(to_b->expose(other.data(), kSize, Rights::remote_read));  // a registration undoes what has become invalid
  EXPECT_LE(a.context->registration_statistics().registered.count, 2U);
}

TEST_F(RegisteredMemory, HonoursEveryAlignmentForEverySize) {
  std::vector<std::byte*> blocks;
  for (std::size_t alignment = 1; alignment <= 4 * am::RegisteredPool::kSlab; alignment *= 2) {
    for (const std::size_t size : {0, 1, 15, 64, 1000, 4096, 100'000, 300'000, 1 << 20, 3 << 20}) {
      const auto block = pool->allocate(size, alignment);
      ASSERT_TRUE(block) << to_string(block.error());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(*block) % alignment, 0U) << size << " at " << alignment;
      std::memset(*block, 0xff, size);
      if (size % 2 == 0) {
        blocks.push_back(*block);
      } else {
        ASSERT_TRUE(pool->deallocate(*block));
      }
    }
  }
  EXPECT_EQ(pool->allocate(8, 12).error().code, Errc::invalid_argument);
  EXPECT_FALSE(pool->allocate(SIZE_MAX));
  EXPECT_EQ(pool->usage().blocks, blocks.size());
  for (std::byte* block : blocks) ASSERT_TRUE(pool->deallocate(block));
  EXPECT_EQ(pool->usage().used, 0U);
}

TEST_F(RegisteredMemory, DoubleFreesInnerAndForeignAddressesAreErrorsThatChangeNothing) {
  std::byte local{};
  EXPECT_FALSE(pool->deallocate(&local)) << "of an empty pool";
  const auto keep = pool->allocate(500);
  const auto block = pool->allocate(500);
  ASSERT_TRUE(keep && block && pool->deallocate(*block));
  const mpool::Usage before = pool->usage();
  for (std::byte* wrong : {*block, *keep + 64, &local, static_cast<std::byte*>(nullptr)}) {
    const auto freed = pool->deallocate(wrong);
    ASSERT_FALSE(freed);
    EXPECT_EQ(freed.error().code, Errc::invalid_argument);
    EXPECT_EQ(freed.error().detail, reinterpret_cast<std::uintptr_t>(wrong));
  }
  EXPECT_EQ(pool->usage().blocks, before.blocks);
  EXPECT_EQ(pool->usage().used, before.used);
  EXPECT_TRUE(pool->deallocate(*keep));
}

TEST_F(RegisteredMemory, ALargeBlockIsUnmappedWhenItIsFreed) {
  const auto block = pool->allocate(10 * am::RegisteredPool::kSlab);
  const auto small = pool->allocate(100);
  ASSERT_TRUE(block && small);
  const std::size_t managed = pool->usage().managed;
  ASSERT_TRUE(pool->deallocate(*block));
  EXPECT_EQ(pool->usage().managed, managed - 10 * am::RegisteredPool::kSlab);
  EXPECT_TRUE(pool->deallocate(*small));
}

TEST_F(RegisteredMemory, LiveBlocksKeepTheirBytesOverARandomTrace) {
  std::mt19937 random{42};
  struct Live {
    std::byte* address;
    std::size_t size;
    std::byte fill;
  };
  std::vector<Live> live;
  std::size_t requested = 0;
  for (int step = 0; step < 50'000; ++step) {
    if (live.size() < 300 && random() % 2 == 0) {
      const std::size_t size = random() % 50 == 0 ? random() % 400'000 : random() % 6000;
      const auto block = pool->allocate(size, std::size_t{1} << (random() % 10));
      ASSERT_TRUE(block);
      live.push_back({*block, size, static_cast<std::byte>(random())});
      std::fill_n(*block, size, live.back().fill);
      requested += size;
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const Live gone = live.back();
      live.pop_back();
      ASSERT_EQ(std::count(gone.address, gone.address + gone.size, gone.fill), static_cast<std::ptrdiff_t>(gone.size));
      ASSERT_TRUE(pool->deallocate(gone.address)) << step;
      requested -= gone.size;
    }
    if (step % 1000 == 0) pool->trim();
    ASSERT_EQ(pool->usage().blocks, live.size());
    ASSERT_GE(pool->usage().used, requested);
    ASSERT_LE(pool->usage().used, pool->usage().managed);
  }
  for (const Live& block : live) ASSERT_TRUE(pool->deallocate(block.address));
  EXPECT_EQ(pool->usage().used, 0U);
}

TEST_F(RegisteredMemory, SmallBlocksShareASlabBesideManyLargeOnes) {
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 10; ++i) {
    for (const std::size_t size : {300'000, 1000}) {
      const auto block = pool->allocate(size);
      ASSERT_TRUE(block);
      blocks.push_back(*block);
    }
  }
  const std::size_t page = 4096;
  EXPECT_EQ(pool->usage().managed, 10 * align_up(300'000, page) + am::RegisteredPool::kSlab);
  for (std::byte* block : blocks) ASSERT_TRUE(pool->deallocate(block));
  EXPECT_EQ(pool->usage().managed, am::RegisteredPool::kSlab) << "large blocks are unmapped when they are freed";
}

TEST(RegisteredMemoryOfThreads, ABlockIsAllocatedByOneThreadAndFreedByAnother) {
  Side side{"sim", am::ThreadLevel::multiple};
  auto opened = am::RegisteredPool::open(*side.context);
  ASSERT_TRUE(opened);
  am::RegisteredPool& pool = **opened;
  std::mutex mutex;
  std::vector<std::byte*> handed_over;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed, random = std::mt19937{seed}]() mutable {
      for (int step = 0; step < 3000; ++step) {
        const auto block = pool.allocate(random() % 40 == 0 ? 300'000 : random() % 5000);
        ASSERT_TRUE(block);
        **block = static_cast<std::byte>(seed);
        const std::lock_guard guard{mutex};
        handed_over.push_back(*block);
        std::swap(handed_over[random() % handed_over.size()], handed_over.back());
        if (handed_over.size() < 50) continue;
        ASSERT_TRUE(pool.deallocate(handed_over.back()));
        handed_over.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.usage().blocks, handed_over.size());
  for (std::byte* block : handed_over) ASSERT_TRUE(pool.deallocate(block));
  EXPECT_EQ(pool.usage().used, 0U);
}

TEST(RegisteredMemoryWithoutDevices, IsPlainMemory) {
  Side side{"self"};
  auto pool = am::RegisteredPool::open(*side.context);
  ASSERT_TRUE(pool);
  const auto block = (*pool)->allocate(100, 4096);
  ASSERT_TRUE(block);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % 4096, 0U);
  EXPECT_EQ(side.context->registration_statistics().misses, 0U);
  EXPECT_TRUE((*pool)->deallocate(*block));
}

}  // namespace
}  // namespace opal::test
