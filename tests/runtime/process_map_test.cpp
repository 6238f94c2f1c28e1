// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/tree/process_map.hpp"

#include <gtest/gtest.h>
#include <pmix_common.h>

#include "runtime/packing.hpp"
#include "runtime/pmix/cluster.hpp"

namespace runtime::daemon {
namespace {

using overlay::IdSet;
using overlay::Range;

std::string fence_of(std::vector<std::uint32_t> ranks) { return pack(pmix::FenceName{std::move(ranks), "fence"}); }

class Ranks : public ::testing::Test {
 protected:
  ProcessMap ranks{{{"h0", {}}, {"h1", {0, 1}}, {"h2", {2, 3}}}};
};

TEST_F(Ranks, AreWhereTheyWerePlaced) {
  EXPECT_EQ(ranks.ranks(), 4U);
  EXPECT_EQ(ranks.host_of(1), 1U);
  EXPECT_EQ(ranks.host_of(2), 2U);
}

TEST_F(Ranks, AreEachAtOneHostAndFromZeroOn) {
  EXPECT_TRUE(ProcessMap::valid({}));
  EXPECT_TRUE(ProcessMap::valid({{"h0", {}}, {"h1", {0, 2}}, {"h2", {1}}}));
  EXPECT_FALSE(ProcessMap::valid({{"h1", {0, 1}}, {"h2", {1}}}));
  EXPECT_FALSE(ProcessMap::valid({{"h1", {1, 0}}}));
  EXPECT_FALSE(ProcessMap::valid({{"h1", {0, 2}}}));
  EXPECT_FALSE(ProcessMap::valid({{"h1", {UINT32_MAX}}})) << "whose table would have 2^32 places";
}

TEST_F(Ranks, AHostIsAbsentFromAMeetingOfWhichAllItsRanksHaveEnded) {
  EXPECT_TRUE(ranks.absent(fence_of({0, 2})).empty());
  ranks.end(IdSet::of(0));
  EXPECT_EQ(ranks.absent(fence_of({0, 2})), IdSet::of(1));
  EXPECT_TRUE(ranks.absent(fence_of({0, 1, 2})).empty()) << "rank 1 comes from there";
  EXPECT_TRUE(ranks.absent(fence_of({1, 2})).empty());
  EXPECT_TRUE(ranks.absent(fence_of({PMIX_RANK_WILDCARD})).empty());
}

TEST_F(Ranks, AHostWithoutLivingRanksIsAbsentFromFencesOfAll) {
  ranks.end(IdSet::of(3));
  ranks.end(IdSet{Range{2, 4}});
  EXPECT_EQ(ranks.absent(fence_of({PMIX_RANK_WILDCARD})), IdSet::of(2));
}

TEST_F(Ranks, ThatDoNotExistAndGarbledNamesAreIgnored) {
  ranks.end(IdSet{Range{3, 5}});
  EXPECT_TRUE(ranks.absent(fence_of({0, 3})).empty());
  ranks.end(IdSet::of(3));
  EXPECT_EQ(ranks.absent(fence_of({0, 3, 77})), IdSet::of(2));
  EXPECT_TRUE(ranks.absent("garbled").empty());
}

}  // namespace
}  // namespace runtime::daemon
