// SPDX-License-Identifier: Apache-2.0
// The owner's side of puts and gets of GPU memory by messages, when there are few slots and fewer events: a process of
// its own, because the first Context decides how many.
#include <algorithm>

#include "tests/gpu/target.hpp"

namespace opal::gpu::test {
namespace {

/// Eight slots of a message each, events for five.
class GpuTargetSlots : public TargetTest {
 protected:
  GpuTargetSlots() : TargetTest({.copy_streams = 3, .copy_events = 5, .stage_chunk = 4_KiB, .stage_chunks = 2}) {}
};

TEST_F(GpuTargetSlots, AnySpeedOfTheDeviceGivesTheSameBytesWithinTheSlotsThereAre) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    open();
    if (control_ != nullptr) {
      control_->set(Setting::late, 9);
      control_->set(Setting::seed, seed);
    }
    const auto bytes = pattern(kSize, static_cast<unsigned>(seed));
    std::vector<std::byte> back(kSize);
    CountedCompletion ends[2];
    ASSERT_EQ(put(bytes, ends[0]), Post::queued);
    settle(ends[0]);
    EXPECT_TRUE(ends[0].ok());
    ASSERT_EQ(get(back, ends[1]), Post::queued);
    std::uint64_t most = 0;
    for (int i = 0; i < 10'000 && ends[1].calls == 0; ++i) {
      pair_->a.module.deliver_one();
      pair_->b.module.deliver_one();
      pair_->b.module.progress(1);
      if (control_ != nullptr) most = std::max(most, unfinished());
    }
    EXPECT_TRUE(ends[1].calls == 1 && ends[1].ok());
    EXPECT_EQ(back, bytes);
    EXPECT_LE(most, 2 * 5u) << "five copies, each with an event";
  }
}

TEST_F(GpuTargetSlots, WhatFindsNoSlotIsCopiedThereAndThen) {
  open();
  device_.write(pattern(kSize, 1));
  std::vector<std::byte> bytes(kSize);
  CountedCompletion ends[2];
  pair_->b.module.capacity = 0;  // the reader takes nothing, and its get has all slots
  ASSERT_EQ(get(bytes, ends[0]), Post::queued);
  for (int i = 0; i < 50; ++i) pair_->settle();
  ASSERT_EQ(put(pattern(kSize, 2), ends[1]), Post::queued);
  for (int i = 0; i < 50; ++i) pair_->settle();
  EXPECT_EQ(device_.read(), pattern(kSize, 2));
  EXPECT_EQ(ends[1].calls, 0) << "the answer has no room";
  pair_->b.module.capacity = 1'000;
  settle(ends[0]);
  EXPECT_EQ(ends[1].calls, 1);
  EXPECT_TRUE(ends[0].ok() && ends[1].ok());
}

}  // namespace
}  // namespace opal::gpu::test
