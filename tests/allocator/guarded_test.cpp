// SPDX-License-Identifier: Apache-2.0
// Wrong uses of memory that the guard finds, and right ones that it leaves alone.
#include "opal/allocator/guarded.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/log.hpp"
#include "opal/mpool/pool.hpp"

namespace opal::allocator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GuardedBlocks : public ::testing::Test {
 protected:
  GuardedBlocks() {
    log::set_sink(
        [](void* self, const log::Message& message) noexcept {
          static_cast<GuardedBlocks*>(self)->said.emplace_back(message.text);
        },
        this);
  }
  ~GuardedBlocks() override { log::set_sink(nullptr, nullptr); }

  std::vector<std::string> said;
  std::unique_ptr<mpool::Pool> parent = std::move(*mpool::open("shared", {.shared_size = 16_MiB}));
  std::unique_ptr<Guarded> guarded = std::make_unique<Guarded>(*parent);
};

TEST_F(GuardedBlocks, ABlockOfNoBytesCountsAsOneByte) {
  std::byte* const block = *guarded->allocate(0);
  *block = std::byte{1};
  EXPECT_EQ(guarded->usage().used, 1U);
  ASSERT_TRUE(guarded->deallocate(block));
  EXPECT_THAT(said, ElementsAre()) << "its one byte may be written";
}

TEST_F(GuardedBlocks, AByteBehindOrBeforeABlockIsFoundWhenItIsFreed) {
  std::byte* const behind = *guarded->allocate(100);
  std::byte* const before = *guarded->allocate(50, 4096);
  behind[100] = std::byte{1};
  before[-1] = std::byte{1};
  EXPECT_TRUE(guarded->deallocate(behind)) << "it is freed all the same";
  EXPECT_TRUE(guarded->deallocate(before));
  EXPECT_THAT(said, ElementsAre(HasSubstr("100 bytes (allocation 1): byte 0 behind its end was written"),
                                HasSubstr("50 bytes (allocation 2): 1 bytes before its start were written")));
}

TEST_F(GuardedBlocks, AWriteToAFreedBlockIsFoundAtTheEndOfItsQuarantine) {
  std::byte* const block = *guarded->allocate(1000);
  ASSERT_TRUE(guarded->deallocate(block));
  EXPECT_EQ(block[0], Guarded::kFreed);
  block[10] = std::byte{1};
  EXPECT_GT(guarded->trim(), 1000U);
  EXPECT_THAT(said, ElementsAre(HasSubstr("byte 10 was written after it was freed")));
}

TEST_F(GuardedBlocks, FreshMemoryHoldsNothingToRelyOn) {
  std::byte* const block = *guarded->allocate(64);
  EXPECT_THAT(std::vector<std::byte>(block, block + 64), ::testing::Each(Guarded::kFresh));
  EXPECT_TRUE(guarded->deallocate(block));
}

TEST_F(GuardedBlocks, WhatIsNotFreedIsNamedAtTheEndAndGivenBack) {
  ASSERT_TRUE(guarded->allocate(11));
  std::byte* const freed = *guarded->allocate(22);
  ASSERT_TRUE(guarded->allocate(33));
  ASSERT_TRUE(guarded->deallocate(freed));
  guarded.reset();
  EXPECT_THAT(said, ElementsAre(HasSubstr("2 blocks of 44 bytes were not freed"), HasSubstr("11 bytes (allocation 1)"),
                                HasSubstr("33 bytes (allocation 3)")));
  EXPECT_EQ(parent->usage().blocks, 0U);
}

TEST_F(GuardedBlocks, FreesOfWhatIsNoBlockAreErrorsThatChangeNothing) {
  std::byte* const block = *guarded->allocate(100);
  EXPECT_THAT(guarded->deallocate(block + 16).error().where, HasSubstr("not the start"));
  EXPECT_TRUE(guarded->deallocate(block));
  EXPECT_THAT(guarded->deallocate(block).error().where, HasSubstr("freed twice"));
  EXPECT_EQ(guarded->usage().blocks, 0U);
}

TEST_F(GuardedBlocks, QuarantineGivesWayWhenMemoryRunsOut) {
  for (int i = 0; i < 100; ++i) {
    const auto block = guarded->allocate(std::size_t{3} << 20);
    ASSERT_TRUE(block) << i << ": " << to_string(block.error());
    ASSERT_TRUE(guarded->deallocate(*block));
  }
  EXPECT_FALSE(guarded->allocate(std::size_t{17} << 20));
  EXPECT_FALSE(guarded->allocate(SIZE_MAX));
  EXPECT_FALSE(guarded->allocate(8, 24));
}

TEST_F(GuardedBlocks, RightUsesAreNoFindingOverARandomTrace) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random{kSeed};
  struct Live {
    std::byte* address;
    std::size_t size;
  };
  std::vector<Live> live;
  for (int step = 0; step < 30'000; ++step) {
    if (live.size() < 100 && random() % 2 == 0) {
      const std::size_t size = random() % 2000;
      const std::size_t alignment = std::size_t{1} << random() % 13;
      const auto block = guarded->allocate(size, alignment);
      ASSERT_TRUE(block) << to_string(block.error());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(*block) % alignment, 0U);
      std::memset(*block, static_cast<int>(random()), size);
      live.push_back({*block, size});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(guarded->deallocate(live.back().address));
      live.pop_back();
    }
    if (step % 5000 == 0) (void)guarded->trim();
    ASSERT_EQ(guarded->usage().blocks, live.size());
  }
  for (const Live& block : live) ASSERT_TRUE(guarded->deallocate(block.address));
  guarded.reset();
  EXPECT_THAT(said, ::testing::IsEmpty());
  EXPECT_EQ(parent->usage().blocks, 0U);
}

}  // namespace
}  // namespace opal::allocator
