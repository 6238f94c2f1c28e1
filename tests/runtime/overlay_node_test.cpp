// SPDX-License-Identifier: Apache-2.0
// What the root of the tree of daemons decides, event by event; tests/sim has whole trees in bad networks.
#include "runtime/overlay/node.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace runtime::overlay {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

/// A root whose members never come.
class OverlayRoot : public ::testing::Test, public Port, public Client {
 protected:
  Channel connect(Id) override { return kNone; }
  void send(Channel, std::string) override {}
  void close(Channel) override {}
  void on_up(Id, std::uint16_t, ByteSpan) override {}
  void on_down(std::uint16_t, ByteSpan) override {}
  void on_release(const Release& release) override { releases.push_back(release); }
  void on_lost(Id member, Loss) override { lost.push_back(member); }
  void on_out(const char*) override {}

  std::vector<Release> releases;
  std::vector<Id> lost;
  const Options options{.count = 3, .radix = 1};
  Node root{options, *this, *this, 0};
};

/// Nothing has happened in the tree for longer than `grace` when it hears of the loss.
TEST_F(OverlayRoot, WaitsForThoseBelowOneThatNeverCameAsLongAsForAnybodyAtTheStart) {
  const Nanoseconds when = 10 * kSecond;
  ASSERT_GT(when, options.grace);
  root.declare_lost(1, Loss::declared, when);
  EXPECT_EQ(lost, std::vector<Id>{1});
  root.on_time(when + options.start - 1);
  EXPECT_EQ(lost, std::vector<Id>{1});
  root.on_time(when + options.start);
  EXPECT_EQ(lost, (std::vector<Id>{1, 2}));
}

TEST_F(OverlayRoot, OperationsDoNotWaitForARetiredMemberAndCountItAsLost) {
  const IdSet both{Range{0, 2}};
  root.arrive("open", both, 0, "data", false);
  EXPECT_TRUE(releases.empty());
  root.retire(1);
  ASSERT_EQ(releases.size(), 1U);
  EXPECT_EQ(releases[0].lost, IdSet::of(1));
  root.arrive("later", both, 0, "data", false);
  ASSERT_EQ(releases.size(), 2U);
  EXPECT_EQ(releases[1].lost, IdSet::of(1));
  EXPECT_TRUE(lost.empty()) << "it lives";
}

}  // namespace
}  // namespace runtime::overlay
