// SPDX-License-Identifier: Apache-2.0
// disconnect() inside handlers, completions and observers, over every transport.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "opal/am/completion_counter.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr Tag kGo = kTag + 1;

class DisconnectInCallbacks : public ::testing::TestWithParam<std::string> {
 protected:
  void connect(Side& from, Side& to) {
    to_b = *from.context->connect(to.context->address());
    const std::size_t before = to.messages;
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    ASSERT_TRUE(pump([&] { return to.messages == before + 1; }, *from.context, *to.context));
  }
  am::Endpoint* to_b = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, DisconnectInCallbacks, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(DisconnectInCallbacks, AHandlerMayDisconnectItsSender) {
  Side a{GetParam()};
  Side b{GetParam()};
  struct Server {
    int calls = 0;
    void on_message(btl::Delivery& delivery) noexcept {
      ++calls;
      am::Endpoint& peer = am::sender(delivery);
      peer.context().disconnect(peer);
      peer.context().disconnect(peer);  // again changes nothing
      Flag late;
      EXPECT_EQ(peer.send(kTag, {}, {}, late), Post::failed);
      EXPECT_EQ(late.error.code, Errc::canceled);
    }
  } server;
  ASSERT_TRUE(b.context->set_handler(kGo, btl::bind<&Server::on_message>(server, "go")));
  for (int round = 1; round <= 3; ++round) {
    connect(a, b);
    ASSERT_EQ(to_b->send_or_queue(kGo, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return a.failed == round; }, *a.context, *b.context));
    EXPECT_EQ(server.calls, round);
    a.context->disconnect(*to_b);
  }
  EXPECT_EQ(b.failed, 0) << "an endpoint that is disconnected here does not fail";
}

struct Dropper final : am::Observer {
  void on_peer_failed(am::Endpoint& peer, const Error&) noexcept override {
    ++failed;
    peer.context().disconnect(peer);
  }
  int failed = 0;
};

TEST_P(DisconnectInCallbacks, AnObserverMayDisconnectThePeerThatFailed) {
  config::Store store;
  store.set("am_transports", GetParam());
  Dropper dropper;
  const auto context = *am::Context::open(store, {.observer = &dropper, .registry = &all_transports()});
  for (int round = 1; round <= 3; ++round) {
    auto b = std::make_unique<Side>(GetParam());
    am::Endpoint* const peer = *context->connect(b->context->address());
    ASSERT_EQ(peer->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    ASSERT_TRUE(pump([&] { return b->messages == 1; }, *context, *b->context));
    b.reset();
    ASSERT_TRUE(pump([&] { return dropper.failed == round; }, *context));
  }
}

TEST_P(DisconnectInCallbacks, ACompletionMayDisconnectAndConnectAnewAfterwards) {
  Side a{GetParam()};
  Side b{GetParam()};
  connect(a, b);
  ASSERT_TRUE(b.context->set_handler(kGo, {[](void*, btl::Delivery&) noexcept {}, nullptr, "go"}));
  struct Ender : Completion {
    am::Endpoint* peer;
    int calls = 0;
    Errc connect_again{};
    const Side* to;
  } ender;
  ender.peer = to_b;
  ender.to = &b;
  ender.fn = [](Completion& self) noexcept {
    auto& end = static_cast<Ender&>(self);
    ++end.calls;
    am::Context& context = end.peer->context();
    context.disconnect(*end.peer);
    const auto again = context.connect(end.to->context->address());
    end.connect_again = again ? Errc{} : again.error().code;
  };
  const std::vector<std::byte> payload(500'000);
  ASSERT_EQ(to_b->send(kGo, {}, payload, ender), Post::queued);
  ASSERT_TRUE(pump([&] { return ender.calls == 1 && b.failed == 1; }, *a.context, *b.context));
  EXPECT_EQ(ender.connect_again, Errc::busy);
  b.context->disconnect(*b.from);
  connect(a, b);
}

/// Two requests that their end finds on the same peer, both of which throw it away.
TEST_P(DisconnectInCallbacks, CompletionsThatAreCanceledMayDisconnectAsWell) {
  Side a{GetParam()};
  Side b{GetParam()};
  connect(a, b);
  struct Ender : Completion {
    am::Endpoint* peer = nullptr;
    int calls = 0;
  };
  std::vector<Ender> enders(2);
  const std::vector<std::byte> payload(500'000);
  for (Ender& ender : enders) {
    ender.peer = to_b;
    ender.fn = [](Completion& self) noexcept {
      auto& end = static_cast<Ender&>(self);
      ++end.calls;
      end.peer->context().disconnect(*end.peer);
    };
    ASSERT_EQ(to_b->send(kTag, {}, payload, ender), Post::queued);
  }
  a.context->disconnect(*to_b);
  for (const Ender& ender : enders) {
    EXPECT_EQ(ender.calls, 1);
    EXPECT_EQ(ender.error.code, Errc::canceled);
  }
  ASSERT_TRUE(pump([&] { return b.failed == 1; }, *a.context, *b.context));
}

struct Replacer final : am::Observer {
  void on_peer_connected(am::Endpoint& peer) noexcept override { peer.context().disconnect(*former); }
  am::Endpoint* former = nullptr;
};

TEST_P(DisconnectInCallbacks, ADisconnectThatTakesEffectInProgressIsAnEventThatEndsAWait) {
  config::Store store;
  store.set("am_transports", GetParam());
  Replacer replacer;
  const auto context = *am::Context::open(store, {.observer = &replacer, .registry = &all_transports()});
  Side b{GetParam()};
  Side c{GetParam()};
  replacer.former = *context->connect(b.context->address());
  Flag canceled;
  const std::vector<std::byte> payload(500'000);
  ASSERT_EQ(replacer.former->send(kTag, {}, payload, canceled), Post::queued);
  ASSERT_TRUE(context->connect_async(c.context->address()));
  while (canceled.calls == 0) ASSERT_GT(context->wait(std::chrono::seconds{20}), 0U);
  EXPECT_EQ(canceled.error.code, Errc::canceled);
}

TEST_P(DisconnectInCallbacks, AtLevelMultipleASleeperIsWokenByWhatDisconnectCancels) {
  Side a{GetParam(), am::ThreadLevel::multiple};
  Side b{GetParam()};
  connect(a, b);
  am::CompletionCounter counter{*a.context};
  const std::vector<std::byte> payload(500'000);
  constexpr int kOperations = 2;
  for (int i = 0; i < kOperations; ++i) {
    ASSERT_EQ(counter.count(to_b->send(kTag, {}, payload, counter)), Post::queued);
  }
  Result<void> outcome;
  const auto wait = [&] { outcome = counter.wait_for(kOperations, std::chrono::milliseconds{-1}); };
  EXPECT_TRUE(is_woken_by(*a.context, wait, [&] { a.context->disconnect(*to_b); }));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Errc::canceled);
}

}  // namespace
}  // namespace opal::test
