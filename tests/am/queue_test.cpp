// SPDX-License-Identifier: Apache-2.0
// send_or_queue: order, limit, and peers that die meanwhile; what the Context tells its observer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/am/scripted_transport.hpp"

namespace opal::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Tag kTag = kUserTags.first;

ByteSpan bytes(const std::string& text) { return std::as_bytes(std::span{text}); }

Post queue(am::Endpoint& to, const std::string& text) { return to.send_or_queue(kTag, bytes(text), {}); }

struct Recorder final : am::Observer {
  std::vector<am::Endpoint*> connected;
  std::vector<Errc> failures;
  void on_peer_connected(am::Endpoint& peer) noexcept override { connected.push_back(&peer); }
  void on_peer_failed(am::Endpoint&, const Error& why) noexcept override { failures.push_back(why.code); }
};

TEST(SendOrQueue, GoesOutAtOnceWhenThereIsRoom) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  const std::string header = "head";
  const std::string payload = "tail";
  EXPECT_EQ(peer.send_or_queue(kTag, bytes(header), bytes(payload)), Post::done);
  EXPECT_THAT(context.module(0).sent, ElementsAre("headtail"));
}

TEST(SendOrQueue, WhatWaitedGoesOutInOrderAndNothingOvertakesIt) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  ScriptedModule& module = context.module(0);
  module.room = 1;
  for (const char* text : {"1", "2", "3"}) EXPECT_EQ(queue(peer, text), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("1"));

  module.room = 1;
  const std::string late = "late";
  EXPECT_EQ(peer.send_inline(kTag, bytes(late), {}), Post::again) << "there is room, but others wait";
  EXPECT_FALSE(peer.alloc(8)) << "a fragment would overtake as well";
  EXPECT_EQ(context.context->progress(), 1u);
  EXPECT_THAT(module.sent, ElementsAre("1", "2"));

  module.room = 10;
  EXPECT_EQ(queue(peer, "4"), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("1", "2")) << "3 waits, so 4 does";
  EXPECT_EQ(context.context->progress(), 2u);
  EXPECT_EQ(peer.send_inline(kTag, bytes(late), {}), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("1", "2", "3", "4", "late"));
}

TEST(SendOrQueue, AFragmentMadeBeforeWaitsForTheQueue) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  ScriptedModule& module = context.module(0);
  btl::Fragment fragment = peer.alloc(1);
  ASSERT_TRUE(fragment);
  fragment.data()[0] = std::byte{'f'};
  module.room = 0;
  EXPECT_EQ(queue(peer, "1"), Post::done);
  module.room = 10;
  EXPECT_EQ(peer.send(fragment, kTag), Post::again);
  EXPECT_TRUE(fragment) << "again leaves it the caller's";
  context.context->progress();
  EXPECT_EQ(peer.send(fragment, kTag), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("1", "f"));
}

TEST(SendOrQueue, KeepsNoMoreThanItsLimit) {
  config::Store store;
  store.set("am_pending_limit", "4096");
  ScriptedContext context{store};
  am::Endpoint& peer = context.connect();
  context.module(0).room = 0;
  const std::string text(256, 'x');
  for (int i = 0; i < 16; ++i) ASSERT_EQ(queue(peer, text), Post::done);
  EXPECT_EQ(queue(peer, text), Post::failed);
  EXPECT_EQ(peer.error().code, Errc::limit_reached);
}

TEST(SendOrQueue, WhatWentOutNoLongerCounts) {
  config::Store store;
  store.set("am_pending_limit", "4096");
  ScriptedContext context{store};
  am::Endpoint& peer = context.connect();
  ScriptedModule& module = context.module(0);
  module.room = 0;
  const std::string text(256, 'x');
  for (int i = 0; i < 15; ++i) ASSERT_EQ(queue(peer, text), Post::done);
  for (int i = 0; i < 100; ++i) {  // never empty, never more than 16
    ASSERT_EQ(queue(peer, text), Post::done) << i;
    module.room = 1;
    ASSERT_EQ(context.context->progress(), 1u);
  }
}

TEST(SendOrQueue, AMessageTooLongIsRefusedAtOnceAlsoWhenOthersWait) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  const std::string text(257, 'x');
  EXPECT_EQ(queue(peer, text), Post::failed);
  context.module(0).room = 0;
  EXPECT_EQ(queue(peer, "1"), Post::done);
  EXPECT_EQ(queue(peer, text), Post::failed);
  EXPECT_EQ(peer.error().code, Errc::invalid_argument);
}

TEST(SendOrQueue, APeerFoundDeadWhileItsQueueIsSentLosesTheQueueAndNobodyElseDoes) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  am::Endpoint& doomed = context.connect();
  am::Endpoint& other = context.connect();
  ScriptedModule& module = context.module(0);
  module.room = 0;
  for (const char* text : {"d1", "d2", "d3"}) ASSERT_EQ(queue(doomed, text), Post::done);
  ASSERT_EQ(queue(other, "o1"), Post::done);
  module.room = 10;
  module.before_send = [&](ScriptedModule::Endpoint& to) {
    if (&to == &module.endpoints.front() && !to.dead() && !module.sent.empty()) module.kill(to);
  };
  context.context->progress();
  EXPECT_THAT(module.sent, ElementsAre("d1", "o1"));
  EXPECT_THAT(recorder.failures, ElementsAre(Errc::peer_gone));
  EXPECT_TRUE(doomed.dead());
  EXPECT_FALSE(other.dead());
  EXPECT_EQ(queue(doomed, "d4"), Post::failed);
  EXPECT_EQ(context.context->progress(), 0u);
}

TEST(SendOrQueue, DisconnectingThrowsTheQueueAway) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  context.module(0).room = 0;
  ASSERT_EQ(queue(peer, "1"), Post::done);
  context.context->disconnect(peer);
  context.module(0).room = 10;
  EXPECT_EQ(context.context->progress(), 0u);
  EXPECT_THAT(context.module(0).sent, IsEmpty());
}

TEST(Peers, OneThatComesIsAnnouncedOnceAndItsMessagesNameIt) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  ScriptedModule& module = context.module(0);
  const PeerId id = PeerId::random();
  module.accept(id);
  ASSERT_EQ(recorder.connected.size(), 1u);
  EXPECT_EQ(recorder.connected[0]->peer(), id);

  struct Sender {
    am::Endpoint* from = nullptr;
    void on_message(btl::Delivery& delivery) noexcept { from = &am::sender(delivery); }
  } sender;
  ASSERT_TRUE(context.context->set_handler(kTag, btl::bind<&Sender::on_message>(sender, "sender")));
  module.deliver(module.endpoints.back(), kTag, {});
  EXPECT_EQ(sender.from, recorder.connected[0]);

  const auto again = context.context->connect(am::encode({id, {{"fast", {}}}}));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, recorder.connected[0]) << "connecting to a peer that came gives its endpoint";
}

TEST(Peers, ADeadOneMustBeDisconnectedBeforeItIsConnectedAgain) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  ScriptedModule& module = context.module(0);
  const std::vector<std::byte> address = am::encode({PeerId::random(), {{"fast", {}}}});
  am::Endpoint* peer = *context.context->connect(address);
  module.kill(module.endpoints.back());
  EXPECT_TRUE(peer->dead());
  const auto refused = context.context->connect(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::peer_gone);
  context.context->disconnect(*peer);
  EXPECT_TRUE(context.context->connect(address));
}

TEST(Peers, ADeadOneThatComesBackIsAnnouncedAndUsableAgain) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  ScriptedModule& module = context.module(0);
  const PeerId id = PeerId::random();
  module.accept(id);
  am::Endpoint& peer = *recorder.connected.at(0);
  module.kill(module.endpoints.back());
  EXPECT_EQ(queue(peer, "lost"), Post::failed);
  module.accept(id);
  EXPECT_EQ(recorder.connected.size(), 2u);
  EXPECT_FALSE(peer.dead());
  EXPECT_EQ(queue(peer, "back"), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("back"));
}

}  // namespace
}  // namespace opal::test
