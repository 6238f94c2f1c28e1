// SPDX-License-Identifier: Apache-2.0
// What every allocator must do, run over Bucket with large and small classes, against a list of live blocks.
#include "opal/allocator/allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "opal/allocator/bucket.hpp"

namespace opal::allocator {
namespace {

/// A parent that gives malloc'd memory, counts what is out and can run dry.
class CountingParent final : public Allocator {
 public:
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override {
    if (size > limit - bytes_out) return Error{Errc::no_memory, 0, "CountingParent"};
    alignment = std::max(alignment, kDefaultAlignment);
    auto* block =
        static_cast<std::byte*>(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
    if (block == nullptr) return Error{Errc::no_memory, 0, "CountingParent"};
    out.emplace(block, size);
    bytes_out += size;
    ++calls;
    return block;
  }
  Result<void> deallocate(std::byte* address) noexcept override {
    const auto found = out.find(address);
    if (found == out.end()) return Error{Errc::invalid_argument, 0, "CountingParent"};
    bytes_out -= found->second;
    out.erase(found);
    std::free(address);
    return {};
  }
  [[nodiscard]] Usage usage() const noexcept override { return {bytes_out, bytes_out, out.size()}; }

  std::size_t limit = std::size_t{1} << 32;  // more than any test asks for in earnest
  std::size_t bytes_out = 0;
  int calls = 0;
  std::unordered_map<std::byte*, std::size_t> out;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Allocator>(CountingParent&)> make;
};

class EveryAllocator : public testing::TestWithParam<Kind> {
 protected:
  CountingParent parent_;
  std::unique_ptr<Allocator> allocator_ = GetParam().make(parent_);
};

TEST_P(EveryAllocator, HonoursEveryAlignmentForEverySize) {
  for (std::size_t alignment = 1; alignment <= 64 << 10; alignment *= 2) {
    for (const std::size_t size : {0, 1, 15, 17, 64, 1000, 4096, 100'000}) {
      const auto block = allocator_->allocate(size, alignment);
      ASSERT_TRUE(block) << to_string(block.error());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(*block) % alignment, 0u) << size << " at " << alignment;
      std::memset(*block, 0xff, size);
      if (size % 2 == 0) {
        ASSERT_TRUE(allocator_->deallocate(*block));
      }
    }
  }
  EXPECT_EQ(allocator_->allocate(8, 12).error().code, Errc::invalid_argument);
}

TEST_P(EveryAllocator, FreedMemoryIsUsedAgain) {
  const auto first = allocator_->allocate(1000, 64);
  ASSERT_TRUE(first && allocator_->deallocate(*first));
  const int calls = parent_.calls;
  for (int i = 0; i < 10'000; ++i) {
    const auto block = allocator_->allocate(1000, 64);
    ASSERT_TRUE(block && allocator_->deallocate(*block));
  }
  EXPECT_EQ(parent_.calls, calls) << "aligned blocks come back too";
}

TEST_P(EveryAllocator, DoubleFreesInnerAndForeignAddressesAreErrorsThatChangeNothing) {
  const auto keep = allocator_->allocate(500);
  const auto block = allocator_->allocate(500);
  ASSERT_TRUE(keep && block && allocator_->deallocate(*block));
  const Usage before = allocator_->usage();
  std::byte local{};
  for (std::byte* wrong : {*block, *keep + 16, &local, static_cast<std::byte*>(nullptr)}) {
    const auto freed = allocator_->deallocate(wrong);
    ASSERT_FALSE(freed);
    EXPECT_EQ(freed.error().code, Errc::invalid_argument);
    EXPECT_EQ(freed.error().detail, reinterpret_cast<std::uintptr_t>(wrong));
  }
  EXPECT_EQ(allocator_->usage().blocks, before.blocks);
  EXPECT_EQ(allocator_->usage().used, before.used);
  EXPECT_TRUE(allocator_->deallocate(*keep));
}

TEST_P(EveryAllocator, AParentRunDryIsAnErrorAndTheAllocatorStaysGood) {
  parent_.limit = parent_.bytes_out;
  std::vector<std::byte*> blocks;
  for (;;) {
    const auto block = allocator_->allocate(10'000);
    if (!block) {
      EXPECT_TRUE(block.error().code == Errc::no_memory || block.error().code == Errc::no_space);
      break;
    }
    blocks.push_back(*block);
  }
  EXPECT_FALSE(allocator_->allocate(SIZE_MAX));
  for (auto* block : blocks) ASSERT_TRUE(allocator_->deallocate(block));
  parent_.limit = std::size_t{1} << 32;
  EXPECT_TRUE(allocator_->allocate(10'000)) << "memory came back, so does the allocator";
}

TEST_P(EveryAllocator, NeverWritesIntoTheMemoryItManages) {
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(*allocator_->allocate(256));
  for (auto* block : blocks) std::memset(block, 0x77, 256);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(allocator_->deallocate(blocks[i]));
  for (auto* block : blocks) {
    ASSERT_TRUE(std::all_of(block, block + 256, [](std::byte b) { return b == std::byte{0x77}; }));
  }
}

TEST_P(EveryAllocator, LiveBlocksKeepTheirBytesOverARandomTrace) {
  constexpr unsigned kSeed = 42;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  struct Live {
    std::byte* address;
    std::size_t size;
    unsigned char fill;
  };
  std::vector<Live> live;
  std::size_t requested = 0;
  for (int step = 0; step < 100'000; ++step) {
    if (live.size() < 300 && random() % 2 == 0) {
      const std::size_t size = random() % 50 == 0 ? random() % 200'000 : random() % 600;
      const std::size_t alignment = std::size_t{1} << (random() % 10);
      const auto block = allocator_->allocate(size, alignment);
      ASSERT_TRUE(block);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(*block) % alignment, 0u);
      const auto fill = static_cast<unsigned char>(random());
      std::memset(*block, fill, size);
      live.push_back({*block, size, fill});
      requested += size;
    } else if (!live.empty()) {
      const std::size_t index = random() % live.size();
      const Live gone = live[index];
      const auto* bytes = reinterpret_cast<const unsigned char*>(gone.address);
      ASSERT_TRUE(std::all_of(bytes, bytes + gone.size, [&](unsigned char b) { return b == gone.fill; })) << step;
      ASSERT_TRUE(allocator_->deallocate(gone.address)) << step;
      requested -= gone.size;
      live[index] = live.back();
      live.pop_back();
    }
    if (step % 1000 == 0) allocator_->trim();
    ASSERT_EQ(allocator_->usage().blocks, live.size());
    ASSERT_GE(allocator_->usage().used, requested);
    ASSERT_LE(allocator_->usage().used, allocator_->usage().managed);
  }
  for (const Live& block : live) ASSERT_TRUE(allocator_->deallocate(block.address));
  EXPECT_EQ(allocator_->usage().used, 0u);
}

TEST_P(EveryAllocator, ThreadsChurnWithoutHandingOneBlockOutTwice) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random{id};
      std::vector<std::byte*> mine;
      for (int step = 0; step < 10'000; ++step) {
        if (mine.size() < 30) {
          const auto block = allocator_->allocate(8 + random() % 500);
          if (!block) continue;
          std::memset(*block, static_cast<int>(id), 8);
          mine.push_back(*block);
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          if (*mine.back() != std::byte(id) || !allocator_->deallocate(mine.back())) ++failures;
          mine.pop_back();
        }
      }
      for (auto* block : mine) {
        if (!allocator_->deallocate(block)) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(allocator_->usage().blocks, 0u);
}

TEST_P(EveryAllocator, ReturnsEverythingToTheParentAtItsEnd) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(allocator_->allocate(5000));
  allocator_.reset();
  EXPECT_EQ(parent_.bytes_out, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryAllocator,
    testing::Values(Kind{"Bucket",
                         [](CountingParent& parent) { return std::make_unique<Bucket>(parent, Bucket::Options{}); }},
                    Kind{"BucketSmallClasses",
                         [](CountingParent& parent) {
                           return std::make_unique<Bucket>(
                               parent, Bucket::Options{.smallest = 64, .largest = 4096, .slab = 4096});
                         }}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(Bucket, TheBlockFreedLastIsHandedOutFirst) {
  CountingParent parent;
  Bucket bucket{parent, {}};
  const auto a = bucket.allocate(100);
  const auto b = bucket.allocate(100);
  ASSERT_TRUE(a && b && bucket.deallocate(*a) && bucket.deallocate(*b));
  EXPECT_EQ(*bucket.allocate(65, 128), *b) << "same class, and aligned requests use the same blocks";
  EXPECT_EQ(*bucket.allocate(128), *a);
}

TEST(Bucket, SmallBlocksWithAnAlignmentBeyondTheClassesGoBackToTheParent) {
  CountingParent parent;
  Bucket bucket{parent, {.smallest = 16, .largest = 4096, .slab = 4096}};
  const auto block = bucket.allocate(64, 64 << 10);
  ASSERT_TRUE(block);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % (64 << 10), 0u);
  ASSERT_TRUE(bucket.deallocate(*block));
  EXPECT_EQ(parent.bytes_out, 0u);
  EXPECT_FALSE(bucket.deallocate(*block));
}

TEST(Bucket, TrimGivesBackSlabsWithoutLiveBlocksAndOnlyThose) {
  CountingParent parent;
  Bucket bucket{parent, {.smallest = 16, .largest = 4096, .slab = 4096}};
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(*bucket.allocate(1024));  // ten slabs of four
  EXPECT_EQ(bucket.trim(), 0u);
  for (std::size_t i = 1; i < blocks.size(); ++i) ASSERT_TRUE(bucket.deallocate(blocks[i]));
  EXPECT_EQ(bucket.trim(), 9u * 4096);
  EXPECT_EQ(parent.bytes_out, 4096u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bucket.allocate(1024));
  EXPECT_EQ(parent.bytes_out, 4096u) << "the free blocks of the slab that stayed are still known";
}

}  // namespace
}  // namespace opal::allocator
