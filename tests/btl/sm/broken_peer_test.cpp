// SPDX-License-Identifier: Apache-2.0
// A peer that writes nonsense into every word it can reach: its own endpoint fails, once, with `protocol`; nothing else
// happens to anybody.
#include <bit>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/raw_peer.hpp"

namespace opal::btl::sm {
namespace {

using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

class BrokenPeer : public ::testing::Test {
 protected:
  BrokenPeer() { to_victim_ = good_.connect(victim_); }

  /// The broken peer's endpoint fails once, with `protocol`; the good peer's conversation goes on.
  void expect_only_it_fails(RawPeer& broken) {
    ASSERT_TRUE(pump([&] { return !victim_.failures.empty(); }, victim_));
    EXPECT_EQ(victim_.failures[0].endpoint, broken.there);
    EXPECT_EQ(victim_.failures[0].why.code, Errc::protocol) << to_string(victim_.failures[0].why);
    EXPECT_TRUE(broken.there->dead());
    EXPECT_EQ(victim_.module().send_inline(*broken.there, kTag, pattern(8, 1), {}), Post::failed);
    expect_traffic();
    EXPECT_EQ(victim_.failures.size(), 1U) << "reported once";
    victim_.module().disconnect(*broken.there);
    expect_traffic();
  }
  void expect_traffic() {
    for (std::uint32_t i = 0; i < 50; ++i) {
      const std::size_t before = victim_.received.size();
      ASSERT_EQ(test::send(*to_victim_, pattern(i * 5, i), {}, good_, victim_), Post::done);
      ASSERT_TRUE(pump([&] { return victim_.received.size() == before + 1; }, good_, victim_));
      ASSERT_EQ(victim_.received.back(), pattern(i * 5, i));
    }
  }
  /// Lets the victim take an honest fast box from `peer` and returns the ring.
  BoxWriter open_box(RawPeer& peer) {
    EXPECT_TRUE(peer.link->out->offer_box(4096));
    peer.send(kTag, pattern(4, 1), wire::kOffersBox);
    EXPECT_TRUE(pump([&] { return peer.link->out->answer_to_offer().has_value(); }, victim_));
    EXPECT_EQ(peer.link->out->answer_to_offer(), true);
    return peer.link->out->box(SIZE_MAX);
  }
  std::byte* ring_of(RawPeer& peer) {
    const auto offer = std::bit_cast<wire::BoxOffer>(peer.header().offer.load());
    return peer.segment.data() + std::size_t{offer.line} * kCacheLine;
  }

  Side victim_{"sm"};
  Side good_{"sm"};
  btl::Endpoint* to_victim_ = nullptr;
};

TEST_F(BrokenPeer, AnHonestOneOfTheSameMakeIsUnderstood) {
  RawPeer peer{victim_};
  peer.send(kTag, pattern(100, 1));
  BoxWriter box = open_box(peer);
  ASSERT_TRUE(box.push(kTag, peer.seq++, {}, pattern(20, 2)));
  ASSERT_TRUE(pump([&] { return victim_.received.size() == 3; }, victim_));
  EXPECT_EQ(victim_.received[0], pattern(100, 1));
  EXPECT_EQ(victim_.received[2], pattern(20, 2));
  EXPECT_TRUE(victim_.failures.empty());
}

TEST_F(BrokenPeer, NonsenseInAFragmentHeader) {
  const wire::FragmentHeader nonsense[] = {
      {0xffffffff, kTag, 0, 0, 0},  // far longer than the segment
      {0x7fffffff, kTag, 0, 0, 0},  //
      {33 * 1024, kTag, 0, 1, 0},   // inside the segment, longer than max_send
      {8, 0, 0, 0, 0},              // no tag
      {8, 0xffff, 0, 0, 0},         // reserved tag
      {8, kTag, 1, 0, 0},           // out of turn
      {8, kTag, 0xffff, 0, 0},      //
      {8, kTag, 0, 2, 0},           // no such size class
      {8, kTag, 0, 0xffffffff, 0},  //
      {8, kTag, 0, 0, 1},           // offers a box, but there is none
      {8, kTag, 0, 0, 0xffffffff},  //
  };
  for (const wire::FragmentHeader& header : nonsense) {
    victim_.failures.clear();
    RawPeer broken{victim_};
    broken.push(header, pattern(8, 1));
    expect_only_it_fails(broken);
  }
}

TEST_F(BrokenPeer, AFragmentOutsideTheSegment) {
  const std::uint32_t end = [&] {
    RawPeer measure{victim_};
    return static_cast<std::uint32_t>(measure.segment.size() / kCacheLine);
  }();
  ASSERT_TRUE(pump([&] { return victim_.failures.size() == 1; }, victim_));
  for (const std::uint32_t line : {0U, 1U, 2U, end, end + 1, wire::kMaxLines - 1}) {
    victim_.failures.clear();
    RawPeer broken{victim_};
    broken.announce(line);
    expect_only_it_fails(broken);
  }
}

TEST_F(BrokenPeer, AnnouncementsInTheNameOfNobodyAreDropped) {
  RawPeer broken{victim_};
  for (const std::uint32_t index : {7U, 100U, wire::kMaxPeers - 1}) {
    ASSERT_TRUE(broken.link->inbox.fifo().push({index, 4}));
  }
  expect_traffic();
  EXPECT_TRUE(victim_.failures.empty());
}

TEST_F(BrokenPeer, TheInboxsHintAndSleepWordOverwritten) {
  RawPeer broken{victim_};
  std::uint64_t random = 1;
  for (int round = 0; round < 100; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    broken.inbox_header().tail.store(round % 2 == 0 ? random : random % 2048);
    broken.inbox_header().sleeping.store(static_cast<std::uint32_t>(random >> 32));
    for (int i = 0; i < 2000; ++i) victim_.module().progress(8);  // long enough for the rare look at the hint
    expect_traffic();
  }
  EXPECT_TRUE(victim_.failures.empty());
}

TEST_F(BrokenPeer, AllSlotsOfTheFifoOverwrittenWhileNothingIsUnderWay) {
  RawPeer broken{victim_};
  std::uint64_t random = 1;
  for (int round = 0; round < 20; ++round) {
    for (std::atomic<std::uint64_t>& slot : broken.slots()) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      slot.store(round % 3 == 0 ? 0 : round % 3 == 1 ? UINT64_MAX : random);
    }
    for (int i = 0; i < 4000; ++i) victim_.module().progress(64);
    expect_traffic();
  }
  EXPECT_TRUE(victim_.failures.empty());
}

TEST_F(BrokenPeer, NonsenseInTheOfferOfABox) {
  const wire::BoxOffer nonsense[] = {
      {100, 0, 12},         // not an offer
      {100, 1, 9},          // too small
      {100, 1, 21},         // too large
      {100, 1, 0xffff},     //
      {0, 1, 12},           // over the header
      {2, 1, 12},           //
      {0xffffffff, 1, 12},  // outside
      {0x00ffffff, 1, 12},  //
  };
  for (const wire::BoxOffer& offer : nonsense) {
    victim_.failures.clear();
    RawPeer broken{victim_};
    broken.header().offer.store(std::bit_cast<std::uint64_t>(offer));
    broken.send(kTag, pattern(8, 1), wire::kOffersBox);
    expect_only_it_fails(broken);
  }
}

TEST_F(BrokenPeer, ASecondBox) {
  RawPeer broken{victim_};
  (void)open_box(broken);
  EXPECT_TRUE(broken.link->out->offer_box(4096));
  broken.send(kTag, pattern(4, 1), wire::kOffersBox);
  expect_only_it_fails(broken);
}

TEST_F(BrokenPeer, NonsenseInABox) {
  const wire::RecordHeader nonsense[] = {
      {8, 0, 7}, {1017, kTag, 1}, {0xffffffff, kTag, 1}, {0, wire::kSkipTag, 1}, {8, kTag, 2}, {8, kTag, 0xfff0},
  };
  for (const wire::RecordHeader& record : nonsense) {
    victim_.failures.clear();
    RawPeer broken{victim_};
    (void)open_box(broken);
    HostMemory::word(ring_of(broken), 0).store(std::bit_cast<std::uint64_t>(record));
    expect_only_it_fails(broken);
  }
}

TEST_F(BrokenPeer, AMessageOfTheFifoThatComesBeforeAMissingOneOfTheBox) {
  RawPeer broken{victim_};
  BoxWriter box = open_box(broken);
  ASSERT_TRUE(box.push(kTag, broken.seq++, {}, pattern(8, 1)));
  ++broken.seq;  // promised, never written
  broken.send(kTag, pattern(8, 2));
  expect_only_it_fails(broken);
}

TEST_F(BrokenPeer, FragmentsGivenBackThatItNeverGot) {
  for (std::size_t size_class = 0; size_class < wire::kFragmentClasses; ++size_class) {
    victim_.failures.clear();
    RawPeer broken{victim_};
    broken.header_there().fragments_released[size_class].store(0x80000000);
    const auto payload = pattern(size_class == 0 ? 3000 : 20'000, 1);
    Post post = Post::done;
    for (int i = 0; i < 1000 && post == Post::done; ++i) {
      post = victim_.module().send_inline(*broken.there, kTag, payload, {});
    }
    EXPECT_EQ(post, Post::failed);
    expect_only_it_fails(broken);
  }
}

TEST_F(BrokenPeer, ABoxGivenBackThatItNeverRead) {
  RawPeer broken{victim_};
  Post post = Post::done;
  for (int i = 0; i < 17; ++i) post = victim_.module().send_inline(*broken.there, kTag, pattern(8, 1), {});
  ASSERT_EQ(post, Post::done);
  const auto offer = std::bit_cast<wire::BoxOffer>(broken.header_there().offer.load());
  ASSERT_NE(offer.number, 0) << "a box is offered after the threshold";
  broken.header_there().answer.store(std::uint32_t{offer.number} << 1 | 1);
  ASSERT_EQ(victim_.module().send_inline(*broken.there, kTag, pattern(8, 1), {}), Post::done);
  ASSERT_TRUE(has_fast_box(*broken.there));
  broken.header_there().box_released.store(77);
  for (int i = 0; i < 1000 && post == Post::done; ++i) {
    post = victim_.module().send_inline(*broken.there, kTag, pattern(8, 1), {});
  }
  EXPECT_EQ(post, Post::failed);
  expect_only_it_fails(broken);
}

TEST_F(BrokenPeer, AnswersToOffersThatWereNeverMadeAreIgnored) {
  RawPeer broken{victim_};
  for (std::uint32_t i = 0; i < 30; ++i) {
    broken.header_there().answer.store(0x80000001U + i);
    ASSERT_EQ(victim_.module().send_inline(*broken.there, kTag, bytes_of(i), {}), Post::done);
  }
  EXPECT_FALSE(has_fast_box(*broken.there));
  expect_traffic();
  EXPECT_TRUE(victim_.failures.empty());
}

TEST_F(BrokenPeer, TalkOutOfTurnOnTheSocketEndsTheConnection) {
  RawPeer broken{victim_};
  ASSERT_TRUE(broken.local.introduce(broken.socket.get(), HelloKind::hello, *broken.link));
  ASSERT_TRUE(pump([&] { return victim_.failures.size() == 1; }, victim_));
  EXPECT_EQ(victim_.failures[0].endpoint, broken.there);
  expect_traffic();
}

}  // namespace
}  // namespace opal::btl::sm
