// SPDX-License-Identifier: Apache-2.0
// What a broken peer may send instead of the messages of the rendezvous, and a transport that fails in the middle.
#include <gtest/gtest.h>

#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "opal/am/messages/large_wire.hpp"
#include "tests/am/scripted_transport.hpp"

namespace opal::test {
namespace {

constexpr Tag kTag = kUserTags.first;

struct Flag : Completion {
  Flag() {
    fn = [](Completion& self) noexcept { ++static_cast<Flag&>(self).calls; };
  }
  int calls = 0;
};

class LargePeer : public ::testing::Test {
 protected:
  LargePeer() {
    EXPECT_TRUE(context.context->set_handler(
        kTag, {[](void* self, btl::Delivery&) noexcept { ++static_cast<LargePeer*>(self)->handled; }, this, "large"}));
    peer = &context.connect();
    route = &context.module(0).endpoints.front();
  }
  /// An offer with these fields, and `rest` after them.
  void offer(const am::wire::LargeOffer& fields, std::size_t rest) {
    std::vector<std::byte> message(sizeof fields + rest);
    std::memcpy(message.data(), &fields, sizeof fields);
    context.module(0).deliver(*route, am::wire::kLargeOffer, message);
  }
  void end(std::uint64_t name, std::uint64_t code) {
    context.module(0).deliver(*route, am::wire::kLargeEnd, bytes_of(am::wire::LargeEnd{name, code}));
  }
  /// The ends that were sent to the peer.
  [[nodiscard]] std::vector<am::wire::LargeEnd> ends() const {
    std::vector<am::wire::LargeEnd> all;
    for (const std::string& text : context.module(0).sent) {
      am::wire::LargeEnd one{};
      if (text.size() == sizeof one) {
        std::memcpy(&one, text.data(), sizeof one);
        all.push_back(one);
      }
    }
    return all;
  }
  [[nodiscard]] std::uint64_t only_code() const { return ends().size() == 1 ? ends()[0].code : UINT64_MAX; }
  static constexpr auto kProtocol = static_cast<std::uint64_t>(Errc::protocol);

  ScriptedContext context;
  am::Endpoint* peer;
  ScriptedModule::Endpoint* route;
  int handled = 0;
  const std::vector<std::byte> payload = std::vector<std::byte>(1000);
};

TEST_F(LargePeer, AnOfferWhoseSizesDoNotAddUpIsRefused) {
  offer({.name = 1, .address = 0, .size = 5000, .header_size = 10, .tag = kTag, .handle_size = 4}, 13);
  EXPECT_EQ(only_code(), kProtocol);
}

TEST_F(LargePeer, AnOfferOfAnImpossibleSizeIsRefused) {
  offer({.name = 1, .address = 0, .size = UINT64_MAX - 3, .header_size = 4, .tag = kTag, .handle_size = 0}, 4);
  EXPECT_EQ(only_code(), kProtocol);
}

TEST_F(LargePeer, AnOfferForAnInternalTagIsRefused) {
  offer({.name = 1, .address = 0, .size = 5000, .header_size = 0, .tag = am::wire::kLargeOffer, .handle_size = 0}, 0);
  EXPECT_EQ(only_code(), kProtocol);
}

TEST_F(LargePeer, AHandleThatIsTooLongIsRefused) {
  offer({.name = 1, .address = 0, .size = 5000, .header_size = 0, .tag = kTag, .handle_size = 255}, 255);
  EXPECT_EQ(only_code(), kProtocol);
}

TEST_F(LargePeer, AHandleThatNamesNothingIsRefusedByTheGet) {
  offer({.name = 7, .address = 16, .size = 5000, .header_size = 0, .tag = kTag, .handle_size = 8}, 8);
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].name, 7u);
  EXPECT_EQ(ends()[0].code, static_cast<std::uint64_t>(Errc::invalid_argument));
  EXPECT_EQ(handled, 0);
}

TEST_F(LargePeer, ATruncatedOfferIsDropped) {
  context.module(0).deliver(*route, am::wire::kLargeOffer, ByteSpan{payload}.first(7));
  EXPECT_TRUE(ends().empty());
}

/// An offer of the library to an imaginary peer, as the peer sees it.
TEST_F(LargePeer, AForgedEndEndsNothing) {
  Flag flag;
  ASSERT_EQ(peer->send(kTag, {}, payload, flag), Post::queued);
  end(1, 0);  // names that no message has
  end(std::uint64_t{1} << 32, 0);
  EXPECT_EQ(flag.calls, 0);
  end(0, 999);
  EXPECT_EQ(flag.calls, 1);
  EXPECT_EQ(flag.error.code, Errc::protocol) << "999 is no code";
  end(0, 0);
  EXPECT_EQ(flag.calls, 1);
}

TEST_F(LargePeer, MoreOffersThanItsCreditsAreRefused) {
  context.module(0).room = 100'000;
  // A handle that the emulation takes, so that the gets stay in flight.
  std::vector<std::byte> memory(5000);
  const auto handle = *context.module(0).register_memory(memory.data(), memory.size(), Rights::all);
  const ByteSpan bytes = handle.bytes();
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  for (std::uint64_t i = 0; i <= am::wire::kMostOffers; ++i) {
    const am::wire::LargeOffer fields{i, address, memory.size(), 0, kTag, static_cast<std::uint16_t>(bytes.size())};
    std::vector<std::byte> message(sizeof fields);
    std::memcpy(message.data(), &fields, sizeof fields);
    message.insert(message.end(), bytes.begin(), bytes.end());
    context.module(0).deliver(*route, am::wire::kLargeOffer, message);
  }
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].name, am::wire::kMostOffers);
  EXPECT_EQ(ends()[0].code, kProtocol);
  context.module(0).kill(*route);
  EXPECT_EQ(handled, 0);
}

TEST_F(LargePeer, AnEndThatFindsNoRoomIsSentLater) {
  context.module(0).room = 0;
  offer({.name = 9, .address = 0, .size = 5000, .header_size = 0, .tag = kTag, .handle_size = 1}, 0);
  context.context->progress();
  EXPECT_TRUE(ends().empty());
  context.module(0).room = 1;
  context.context->progress();
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_EQ(ends()[0].name, 9u);
}

TEST_F(LargePeer, APeerThatDiesInThePostOfAnOfferFailsThatPostAndEndsTheOthers) {
  Flag first;
  Flag second;
  ASSERT_EQ(peer->send(kTag, {}, payload, first), Post::queued);
  context.module(0).before_send = [&](ScriptedModule::Endpoint& endpoint) { context.module(0).kill(endpoint); };
  EXPECT_EQ(peer->send(kTag, {}, payload, second), Post::failed);
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(first.error.code, Errc::peer_gone);
  EXPECT_EQ(second.calls, 0);
  EXPECT_EQ(second.error.code, Errc::peer_gone);
}

TEST_F(LargePeer, OffersThatWaitForACreditAreBounded) {
  std::vector<Flag> flags(am::wire::kMostOffers);
  for (Flag& flag : flags) ASSERT_EQ(peer->send(kTag, {}, payload, flag), Post::queued);
  std::list<Flag> more;
  Post post = Post::queued;
  for (int i = 0; i < 1'000'000 && post == Post::queued; ++i) post = peer->send(kTag, {}, payload, more.emplace_back());
  EXPECT_EQ(post, Post::failed);
  EXPECT_EQ(more.back().error.code, Errc::limit_reached);
  const std::size_t sent = context.module(0).sent.size();
  end(0, 0);
  EXPECT_EQ(flags[0].calls, 1);
  EXPECT_EQ(context.module(0).sent.size(), sent + 1) << "one more offer goes out";
  context.module(0).kill(*route);
  EXPECT_EQ(flags[1].calls, 1);
  EXPECT_EQ(more.front().calls, 1) << "what waits ends with the peer";
}

}  // namespace
}  // namespace opal::test
