// SPDX-License-Identifier: Apache-2.0
// What the root of the tree of daemons decides, event by event; tests/sim has whole trees in bad networks.
#include "runtime/overlay/node.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/node_probe.hpp"

namespace runtime::overlay {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

/// A root whose members come when a test says so.
class OverlayRoot : public ::testing::Test, public Port, public Client {
 protected:
  void attach(Channel channel, Id member, std::uint32_t attempt) {
    root.on_frame(channel, oob::as_bytes(frame(FrameType::attach, attempt, 0, pack(Attach{member, 0, 1, 1, {}}))), 0);
  }
  Channel connect(Id) override { return kNone; }
  void send(Channel, std::string frame) override { sent.push_back(frame.size()); }
  void close(Channel) override {}
  void on_up(Id, std::uint16_t, ByteSpan) override {}
  void on_down(std::uint16_t, ByteSpan) override {}
  void on_release(const Release& release) override { releases.push_back(release); }
  [[nodiscard]] IdSet absent(const std::string& key) const override { return key == "some" ? gone : IdSet{}; }
  void on_lost(Id member, Loss) override { lost.push_back(member); }
  void on_out(const char*) override {}

  std::vector<std::size_t> sent;  // bytes of each frame
  std::vector<Release> releases;
  std::vector<Id> lost;
  IdSet gone;  // from operations with the key "some"
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

/// As on a machine that stood still, or was too busy to run the root: what its members said waits to be read.
TEST_F(OverlayRoot, DoesNotTakeItsOwnAbsenceForTheSilenceOfOthers) {
  attach(1, 1, 1);
  const Nanoseconds late = 100 * kSecond;
  root.on_time(late);
  root.on_time(late + options.silence_timeout - 1);
  EXPECT_EQ(NodeProbe::attached_children(root), 1U);
  Nanoseconds now = late;  // called in time from now on
  while (NodeProbe::attached_children(root) == 1 && now < 2 * late) root.on_time(now = root.deadline());
  EXPECT_LE(now, late + 3 * options.silence_timeout) << "silence is noticed";
}

/// Found by a seed: the way to 2 had passed by 1 already when 2 was lost, and it would never have been acknowledged.
TEST_F(OverlayRoot, HoldsNothingForALostMemberThatHadALinkOfItsOwn) {
  attach(1, 1, 1);
  attach(2, 2, 2);
  root.send_down(IdSet::of(2), kFirstUserTopic, "for 2 alone");
  EXPECT_GT(NodeProbe::held_bytes(root), 0U);
  root.declare_lost(2, Loss::declared, 0);
  EXPECT_EQ(NodeProbe::held_bytes(root), 0U);
}

/// A member that has received little acknowledges it a quarter of a second later.
TEST_F(OverlayRoot, AMessageLongerThanTheWindowDoesNotWaitUntilAShortOneBeforeItIsAcknowledged) {
  attach(1, 1, 1);
  root.send_down(IdSet::of(1), kFirstUserTopic, "short");
  root.send_down(IdSet::of(1), kFirstUserTopic, std::string(options.window, 'x'));
  EXPECT_GT(sent.back(), options.window);
  const std::size_t before = sent.size();
  root.send_down(IdSet::of(1), kFirstUserTopic, "one too many");
  EXPECT_EQ(sent.size(), before);
}

TEST_F(OverlayRoot, OperationsDoNotWaitForAMemberThatIsAbsentFromThemAndCountItAsLost) {
  const IdSet both{Range{0, 2}};
  root.arrive("some", both, 0, "data");
  root.arrive("other", both, 0, "data");
  EXPECT_TRUE(releases.empty());
  gone.add(1);
  root.recheck();
  ASSERT_EQ(releases.size(), 1U);
  EXPECT_EQ(releases[0].name, (OperationName{"some", 1}));
  EXPECT_EQ(releases[0].lost, IdSet::of(1));
  root.arrive("some", both, 0, "data");
  ASSERT_EQ(releases.size(), 2U);
  EXPECT_EQ(releases[1].lost, IdSet::of(1));
  EXPECT_TRUE(lost.empty()) << "it lives";
}

/// The name and the sets of members are more than the room that kLargestContent leaves for them.
TEST_F(OverlayRoot, AnOperationWhoseNameOrMembersMakeItsMessageTooLongIsReleasedWithoutData) {
  const Options many{.count = 20'000, .radix = 1};
  IdSet scattered;
  for (Id member = 1; member < many.count; member += 2) scattered.add(member);
  struct Case {
    const char* what;
    const Options options;
    std::string key;
    IdSet below;
  };
  for (const Case& each :
       {Case{"name", options, std::string(128U << 10, 'k'), IdSet::of(1)}, Case{"members", many, "key", scattered}}) {
    Node node{each.options, *this, *this, 0};
    node.on_frame(1, oob::as_bytes(frame(FrameType::attach, 1, 0, pack(Attach{1, 0, 1, 1, {}}))), 0);
    IdSet all = each.below;
    all.add(0);
    node.arrive(each.key, all, 0, std::string(kLargestContent - 1024, 'x'));
    const Contribution theirs{.name = {each.key, 1}, .participants = all, .covered = each.below};
    node.on_frame(1, oob::as_bytes(frame(FrameType::contribute, 1, 0, pack(theirs))), 0);
    ASSERT_FALSE(releases.empty()) << each.what;
    EXPECT_TRUE(releases.back().too_large) << each.what;
    EXPECT_LE(sent.back(), oob::kLargestMessage) << each.what;
  }
  EXPECT_EQ(releases.size(), 2U);
}

}  // namespace
}  // namespace runtime::overlay
