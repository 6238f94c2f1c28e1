// SPDX-License-Identifier: Apache-2.0
// The shape of the tree of daemons and sets of members, against plain models.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/overlay/tree.hpp"
#include "runtime/packing.hpp"

namespace runtime::overlay {
namespace {

TEST(OverlayTree, EveryMemberHasOnePlaceAndItsSubtreeIsWhatIsBelow) {
  for (const unsigned radix : {1U, 2U, 3U, 16U}) {
    for (const Id count : {1U, 2U, 3U, 17U, 100U, 1000U}) {
      const Tree tree{count, radix};
      std::vector<Id> size(count, 1);
      for (Id id = count; id-- > 1;) {
        ASSERT_LT(tree.parent(id), id);
        size[tree.parent(id)] += size[id];
      }
      for (Id id = 0; id < count; ++id) {
        ASSERT_EQ(tree.subtree(id), (Range{id, id + size[id]}));
        ASSERT_LE(tree.children(id).size(), radix);
        for (const Range& child : tree.children(id)) {
          ASSERT_EQ(tree.parent(child.begin), id);
          ASSERT_EQ(tree.subtree(child.begin), child);
        }
      }
    }
  }
}

TEST(OverlayTree, DepthGrowsWithTheLogarithm) {
  const Tree tree{100'000, 16};
  std::vector<unsigned> depth(100'000);
  for (Id id = 1; id < 100'000; ++id) depth[id] = depth[tree.parent(id)] + 1;
  EXPECT_EQ(*std::max_element(depth.begin(), depth.end()), 5U);  // four full levels below the root hold 69904
}

TEST(OverlayIdSet, DoesWhatASetOfNumbersDoes) {
  std::mt19937 random{1};
  const auto up_to = [&](unsigned most) { return static_cast<Id>(random() % (most + 1)); };
  for (int round = 0; round < 300; ++round) {
    IdSet set;
    std::set<Id> model;
    for (int step = 0; step < 30; ++step) {
      const Id begin = up_to(50);
      const Range range{begin, begin + up_to(8)};
      const bool adds = up_to(2) != 0;
      if (adds) {
        set.add(range);
      } else {
        set.remove(range);
      }
      for (Id id = range.begin; id < range.end; ++id) {
        if (adds) {
          model.insert(id);
        } else {
          model.erase(id);
        }
      }
      ASSERT_TRUE(set.valid(60));
      for (Id id = 0; id < 60; ++id) ASSERT_EQ(set.contains(id), model.contains(id));
      const Id from = up_to(50);
      const Range window{from, from + up_to(10)};
      const IdSet within = set.within(window);
      for (Id id = 0; id < 60; ++id) ASSERT_EQ(within.contains(id), window.contains(id) && model.contains(id));
      ASSERT_EQ(set.intersects(window), !within.empty());
    }
  }
}

TEST(OverlayIdSet, RefusesWhatAPeerMadeUp) {
  const auto from = [](std::vector<Range> ranges) {
    struct Peers {
      std::vector<Range> ranges;
      void fields(Packer& v) { v(ranges); }
    };
    const std::string bytes = pack(Peers{std::move(ranges)});
    return unpack<IdSet>(std::as_bytes(std::span{bytes}))->valid(100);
  };
  EXPECT_TRUE(from({{1, 5}, {7, 100}}));
  EXPECT_FALSE(from({{1, 101}}));
  EXPECT_FALSE(from({{5, 5}}));
  EXPECT_FALSE(from({{5, 9}, {1, 2}}));
  EXPECT_FALSE(from({{1, 5}, {4, 8}}));
}

}  // namespace
}  // namespace runtime::overlay
