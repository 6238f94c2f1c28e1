// SPDX-License-Identifier: Apache-2.0
// send_or_queue: order, limit, and peers that die meanwhile; what the Context tells its observer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

TEST(Peers, ADeadOneThatComesBackHasANewEndpointAndTheFormerStaysDead) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  ScriptedModule& module = context.module(0);
  const PeerId id = PeerId::random();
  module.accept(id);
  am::Endpoint& former = *recorder.connected.at(0);
  module.kill(module.endpoints.back());
  EXPECT_EQ(queue(former, "lost"), Post::failed);
  module.accept(id);
  ASSERT_EQ(recorder.connected.size(), 2u);
  am::Endpoint& latter = *recorder.connected[1];
  ASSERT_NE(&latter, &former);
  EXPECT_TRUE(former.dead());
  context.context->disconnect(former);  // noted in on_peer_failed, say, and done only now
  EXPECT_EQ(module.endpoints.size(), 1u) << "the new connection is not touched";
  EXPECT_EQ(queue(latter, "back"), Post::done);
  EXPECT_THAT(module.sent, ElementsAre("back"));
  EXPECT_EQ(*context.context->connect(am::encode({id, {{"fast", {}}}})), &latter);
  context.context->disconnect(latter);
  EXPECT_TRUE(module.endpoints.empty());
}

TEST(Peers, OfADeadOneTheTransportHasNothingLeftAfterTheNextProgress) {
  Recorder recorder;
  ScriptedContext context{{}, &recorder};
  ScriptedModule& module = context.module(0);
  for (int life = 0; life < 3; ++life) {
    module.accept(PeerId{1, 1});
    module.kill(module.endpoints.back());
  }
  EXPECT_EQ(module.endpoints.size(), 3u) << "not from inside the callback";
  context.context->progress();
  EXPECT_TRUE(module.endpoints.empty());
  for (am::Endpoint* former : recorder.connected) {
    EXPECT_TRUE(former->dead());
    EXPECT_EQ(former->error().code, Errc::peer_gone);
    EXPECT_EQ(former->send_inline(kTag, {}, {}), Post::failed);
    EXPECT_FALSE(former->alloc(8));
    EXPECT_FALSE(former->expose(nullptr, 0, Rights::all));
    context.context->disconnect(*former);
  }
}

TEST(Peers, AFragmentOutlivesItsPeerAndIsGivenBackToItsTransport) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  ScriptedModule& module = context.module(0);
  btl::Fragment fragment = peer.alloc(4);
  ASSERT_TRUE(fragment);
  module.kill(module.endpoints.back());
  context.context->progress();
  EXPECT_EQ(module.endpoints.size(), 1u) << "the fragment lies in its memory";
  fragment.data()[3] = std::byte{1};
  EXPECT_EQ(peer.send(fragment, kTag), Post::failed);
  EXPECT_FALSE(fragment) << "given back";
  context.context->progress();
  EXPECT_TRUE(module.endpoints.empty());
}

TEST(Tags, ZeroAndTheLastAreRefusedByEveryFunctionThatSends) {
  ScriptedContext context;
  am::Endpoint& peer = context.connect();
  ScriptedModule& module = context.module(0);
  const auto refused = [&](Post post) {
    const Errc why = peer.error().code;
    return post == Post::failed && why == Errc::invalid_argument;
  };
  for (const Tag tag : {Tag{0}, Tag{0xffff}}) {
    EXPECT_TRUE(refused(peer.send_inline(tag, {}, {})));
    EXPECT_TRUE(refused(peer.send_or_queue(tag, {}, {})));
    btl::Fragment fragment = peer.alloc(4);
    EXPECT_TRUE(refused(peer.send(fragment, tag)));
    EXPECT_FALSE(fragment) << "given back";
  }
  EXPECT_THAT(module.sent, IsEmpty());
  EXPECT_EQ(peer.send_inline(0xfffe, {}, {}), Post::done);
  EXPECT_EQ(peer.send_inline(1, {}, {}), Post::done);
}

TEST(Sleepers, AThreadThatPollsInVainArmsNothingForOneThatSleeps) {
  ScriptedContext context{{}, nullptr, am::ThreadLevel::multiple};
  ScriptedModule& module = context.module(0);
  std::atomic<int> looks{0};
  std::atomic<bool> over{false};
  std::jthread sleeper{[&] {
    EXPECT_TRUE(context.context->wait_until(
        [&] {
          ++looks;
          return over.load();
        },
        std::chrono::seconds{20}));
  }};
  const auto arms = [&] {
    const am::Lock::Guard guard{context.context->lock()};
    return module.arms;
  };
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (arms() == 0 && !deadline.expired()) std::this_thread::yield();  // about to sleep
  const std::size_t before = arms();
  for (int i = 0; i < 1000; ++i) context.context->progress();
  EXPECT_LE(arms(), before + 1);

  const int seen = looks;
  over = true;
  {
    const am::Lock::Guard guard{context.context->lock()};
    module.happened = 1;  // which disarms, and may be what the sleeper waits for
  }
  while (looks == seen && !deadline.expired()) context.context->progress();
  EXPECT_GT(looks, seen) << "woken by what another thread found";
}

}  // namespace
}  // namespace opal::test
