// SPDX-License-Identifier: Apache-2.0
// How launch and fence grow with the number of daemons.  The figures are of simulated time: the same on every machine.
#include <gtest/gtest.h>

#include "tests/sim/overlay_crowd.hpp"

namespace opal::test {
namespace {

TEST(SimOverlayScale, TenTimesTheDaemonsCostALevelNotTenTimesTheTime) {
  const CrowdResult few = run_crowd(1'000, 16, {});
  const CrowdResult many = run_crowd(10'000, 16, {});
  EXPECT_LT(many.launch_ms, 2 * few.launch_ms);
  EXPECT_LT(many.fence_us, 2 * few.fence_us);
  EXPECT_LT(many.broadcast_us, 2 * few.broadcast_us);
  EXPECT_NEAR(many.frames_each, few.frames_each, 1);
  EXPECT_LT(many.root_frames, 2 * few.root_frames) << "the root talks with its children only";
  EXPECT_LT(many.member_memory, 2 * few.member_memory);
}

TEST(SimOverlayScale, ATreeIsFasterThanAStarOfAThousand) {
  const CrowdResult tree = run_crowd(1'000, 16, {});
  const CrowdResult star = run_crowd(1'000, 999, {});
  EXPECT_LT(tree.launch_ms, star.launch_ms / 4);
  EXPECT_LT(tree.fence_us, star.fence_us / 4);
}

}  // namespace
}  // namespace opal::test
