// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/match/matcher.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace mpi_shim::match {
namespace {

struct Recv : PostedRecv {
  Recv(int source, int tag) { wanted = {source, tag}; }
};
struct Message : Unexpected {
  Message(int source, int tag) { envelope = {source, tag}; }
};

TEST(Matcher, AMessageGoesToTheReceiveWithItsSourceAndTag) {
  Matcher matcher;
  Recv other{1, 8};
  Recv right{1, 7};
  EXPECT_EQ(matcher.post(other), nullptr);
  EXPECT_EQ(matcher.post(right), nullptr);
  EXPECT_EQ(matcher.arrive({1, 7}), &right);
  EXPECT_EQ(matcher.arrive({1, 7}), nullptr);
  EXPECT_EQ(matcher.posted(), 1U);
}

TEST(Matcher, EqualReceivesGetMessagesInTheOrderTheyWerePosted) {
  Matcher matcher;
  std::deque<Recv> receives;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(matcher.post(receives.emplace_back(3, 4)), nullptr);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(matcher.arrive({3, 4}), &receives[static_cast<std::size_t>(i)]);
}

TEST(Matcher, AWildcardPostedEarlierWinsOverAnExactReceivePostedLater) {
  for (const Envelope wild : {Envelope{kAnySource, 5}, Envelope{2, kAnyTag}, Envelope{kAnySource, kAnyTag}}) {
    Matcher matcher;
    Recv early{wild.source, wild.tag};
    Recv late{2, 5};
    EXPECT_EQ(matcher.post(early), nullptr);
    EXPECT_EQ(matcher.post(late), nullptr);
    EXPECT_EQ(matcher.arrive({2, 5}), &early);
    EXPECT_EQ(matcher.arrive({2, 5}), &late);
  }
}

TEST(Matcher, AnExactReceivePostedEarlierWinsOverEveryWildcard) {
  Matcher matcher;
  Recv exact{2, 5};
  Recv any{kAnySource, kAnyTag};
  Recv any_source{kAnySource, 5};
  Recv any_tag{2, kAnyTag};
  for (Recv* receive : {&exact, &any, &any_source, &any_tag}) EXPECT_EQ(matcher.post(*receive), nullptr);
  for (Recv* receive : {&exact, &any, &any_source, &any_tag}) EXPECT_EQ(matcher.arrive({2, 5}), receive);
}

TEST(Matcher, AReceiveTakesTheEarliestMessageItAccepts) {
  Matcher matcher;
  Message a{1, 10};
  Message b{2, 20};
  Message c{1, 20};
  for (Message* message : {&a, &b, &c}) {
    ASSERT_EQ(matcher.arrive(message->envelope), nullptr);
    matcher.add(*message);
  }
  Recv tag_20{kAnySource, 20};
  EXPECT_EQ(matcher.post(tag_20), &b);
  Recv from_1{1, kAnyTag};
  EXPECT_EQ(matcher.post(from_1), &a);
  Recv any{kAnySource, kAnyTag};
  EXPECT_EQ(matcher.post(any), &c);
  EXPECT_EQ(matcher.unexpected(), 0U);
}

TEST(Matcher, ProbeLeavesTheMessageAndTakeDoesNot) {
  Matcher matcher;
  Message message{1, 2};
  EXPECT_EQ(matcher.probe({kAnySource, kAnyTag}), nullptr);
  ASSERT_EQ(matcher.arrive(message.envelope), nullptr);
  matcher.add(message);
  EXPECT_EQ(matcher.probe({1, kAnyTag}), &message);
  EXPECT_EQ(matcher.probe({kAnySource, 2}), &message);
  EXPECT_EQ(matcher.probe({1, 3}), nullptr);
  EXPECT_EQ(matcher.take({1, 2}), &message);
  EXPECT_EQ(matcher.probe({1, 2}), nullptr);
}

TEST(Matcher, ACancelledReceiveGetsNothingAndAMatchedOneCannotBeCancelled) {
  Matcher matcher;
  Recv first{1, 1};
  Recv second{1, 1};
  EXPECT_EQ(matcher.post(first), nullptr);
  EXPECT_EQ(matcher.post(second), nullptr);
  EXPECT_TRUE(matcher.cancel(first));
  EXPECT_FALSE(matcher.cancel(first));
  EXPECT_EQ(matcher.arrive({1, 1}), &second);
  EXPECT_FALSE(matcher.cancel(second));
}

TEST(Matcher, TagsBelowZeroOfInternalTrafficAreTagsLikeOthers) {
  Matcher matcher;
  Recv barrier{0, -77};
  EXPECT_EQ(matcher.post(barrier), nullptr);
  EXPECT_EQ(matcher.arrive({0, 77}), nullptr);
  EXPECT_EQ(matcher.arrive({0, -77}), &barrier);
}

TEST(Matcher, ReceivesFromOnePeerCanBeTakenBackWhenItDies) {
  Matcher matcher;
  std::deque<Recv> receives;
  for (int i = 0; i < 300; ++i) {
    const int tag = i % 7 == 0 ? kAnyTag : i;
    EXPECT_EQ(matcher.post(receives.emplace_back(i % 3, tag)), nullptr);
  }
  std::size_t taken = 0;
  matcher.for_each_posted([&](PostedRecv& receive) {
    if (receive.wanted.source == 1) taken += matcher.cancel(receive);
  });
  EXPECT_EQ(taken, 100U);
  EXPECT_EQ(matcher.posted(), 200U);
  std::size_t left = 0;
  matcher.for_each_posted([&](PostedRecv& receive) { left += receive.wanted.source != 1; });
  EXPECT_EQ(left, 200U);
}

TEST(Matcher, MessagesLeftAtTheEndComeOutInOrderOfArrival) {
  Matcher matcher;
  std::deque<Message> messages;
  for (int i = 0; i < 200; ++i) {
    Message& message = messages.emplace_back(i % 5, i);
    EXPECT_EQ(matcher.arrive(message.envelope), nullptr);
    matcher.add(message);
  }
  int expected = 0;
  matcher.for_each_unexpected([&](Unexpected& message) {
    EXPECT_EQ(message.envelope.tag, expected++);
    EXPECT_TRUE(matcher.remove(message));
  });
  EXPECT_EQ(expected, 200);
  EXPECT_EQ(matcher.unexpected(), 0U);
}

}  // namespace
}  // namespace mpi_shim::match
