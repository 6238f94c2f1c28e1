// SPDX-License-Identifier: Apache-2.0
// connect_async(): what may be posted meanwhile, how its end is reported, and peers that are faster or not reachable.
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

class AsyncConnect : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a.context, *b.context);
  }
  Side a{GetParam()};
  Side b{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Over, AsyncConnect, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

/// An event loop as in opal.h: it polls the descriptor only if progress() finds no event and arm() returns true.
/// False: the condition is not true after 20 s.
template <class Condition>
[[nodiscard]] bool run_event_loop(am::Context& context, Condition condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!condition()) {
    if (deadline.expired()) return false;
    if (context.progress() != 0 || !context.arm()) continue;
    pollfd fd{context.fd(), POLLIN, 0};
    (void)::poll(&fd, 1, deadline.poll_timeout_ms());
  }
  return true;
}

TEST_P(AsyncConnect, WhatIsQueuedMeanwhileArrivesAfterwards) {
  std::uint64_t memory = 0;
  const am::Region region = *b.context->register_memory(&memory, sizeof memory, Rights::all);
  am::Endpoint* const peer = *a.context->connect_async(b.context->address());
  EXPECT_FALSE(peer->connected());
  EXPECT_FALSE(peer->dead());
  EXPECT_EQ(*a.context->connect_async(b.context->address()), peer);
  const std::uint64_t word = 7;
  EXPECT_EQ(peer->send_inline(kTag, bytes_of(word), {}), Post::again);
  EXPECT_EQ(peer->unpack_key(region.key()).error().code, Errc::busy);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(peer->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return peer->connected() && b.messages == 10; }));
  EXPECT_EQ(a.connected, std::vector<am::Endpoint*>{peer});
  EXPECT_NE(peer->explain().find(": taken"), std::string::npos);
  const MemoryHandle handle = *peer->unpack_key(region.key());
  const auto put = [&](Completion& end) {
    return peer->put_or_queue(&word, reinterpret_cast<std::uint64_t>(&memory), handle, sizeof word, end);
  };
  EXPECT_EQ(finish(put, *a.context, *b.context).code, Errc{});
  EXPECT_EQ(memory, 7u);
  EXPECT_EQ(*a.context->connect_async(b.context->address()), peer);
  EXPECT_EQ(*a.context->connect(b.context->address()), peer);
}

TEST_P(AsyncConnect, AnotherTransportEndsItAsUnreachable) {
  const std::string other = GetParam() == "sm" ? "tcp" : "sm";
  Side unreachable{other};
  am::Endpoint* const peer = *a.context->connect_async(unreachable.context->address());
  EXPECT_EQ(peer->send_or_queue(kTag, {}, {}), Post::done);
  Flag put;
  const std::uint64_t word = 0;
  EXPECT_EQ(peer->put_or_queue(&word, 0, MemoryHandle{}, sizeof word, put), Post::queued);
  ASSERT_TRUE(pump([&] { return a.failed == 1; }, *a.context));
  EXPECT_TRUE(peer->dead());
  EXPECT_EQ(peer->error().code, Errc::unreachable);
  EXPECT_NE(peer->explain().find("the peer does not have it"), std::string::npos);
  EXPECT_EQ(put.calls, 1);
  EXPECT_EQ(put.error.code, Errc::unreachable);
  EXPECT_EQ(a.context->connect_async(unreachable.context->address()).error().code, Errc::peer_gone);
  a.context->disconnect(*peer);
  EXPECT_TRUE(a.context->connect_async(unreachable.context->address()));
}

TEST_P(AsyncConnect, AnEventLoopHearsThatNoTransportReachesThePeer) {
  Side unreachable{GetParam() == "sm" ? "tcp" : "sm"};
  ASSERT_TRUE(a.context->connect_async(unreachable.context->address()));
  EXPECT_TRUE(run_event_loop(*a.context, [&] { return a.failed == 1; }));
}

TEST_P(AsyncConnect, TheChoiceOfTheTransportIsAnEventThatEndsAWait) {
  am::Endpoint* const peer = *a.context->connect_async(b.context->address());
  EXPECT_GT(a.context->wait(std::chrono::seconds{20}), 0U);
  EXPECT_TRUE(peer->connected());
}

TEST_P(AsyncConnect, AThreadThatSleepsConnectsThePeerOfAnotherThread) {
  Side many{GetParam(), am::ThreadLevel::multiple};
  am::Endpoint* peer = nullptr;  // under the Context's lock
  const auto wait = [&] {
    return many.context->wait_until([&] { return peer != nullptr && peer->connected(); },
                                    std::chrono::milliseconds{-1});
  };
  EXPECT_TRUE(is_woken_by(*many.context, wait, [&] {
    const am::Lock::Guard guard{many.context->lock()};
    peer = *many.context->connect_async(b.context->address());
  }));
}

TEST_P(AsyncConnect, MayBeDisconnectedBeforeItHasATransport) {
  am::Endpoint* const peer = *a.context->connect_async(b.context->address());
  Flag put;
  const std::uint64_t word = 0;
  EXPECT_EQ(peer->put_or_queue(&word, 0, MemoryHandle{}, sizeof word, put), Post::queued);
  a.context->disconnect(*peer);
  EXPECT_EQ(put.calls, 1);
  EXPECT_EQ(put.error.code, Errc::canceled);
  am::Endpoint* const again = *a.context->connect_async(b.context->address());
  ASSERT_EQ(again->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b.messages == 1; }));
}

TEST_P(AsyncConnect, BothSidesAtOnceMakeOneEndpointEach) {
  am::Endpoint* const to_b = *a.context->connect_async(b.context->address());
  am::Endpoint* const to_a = *b.context->connect_async(a.context->address());
  const std::uint64_t word = 0;
  for (am::Endpoint* peer : {to_a, to_b}) ASSERT_EQ(peer->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return a.messages == 1 && b.messages == 1; }));
  EXPECT_EQ(a.from, to_b);
  EXPECT_EQ(b.from, to_a);
  EXPECT_EQ(a.connected, std::vector<am::Endpoint*>{to_b});
  EXPECT_EQ(b.connected, std::vector<am::Endpoint*>{to_a});
}

TEST_P(AsyncConnect, AHandlerMayConnect) {
  Side third{GetParam()};
  am::Endpoint* const to_b = *a.context->connect(b.context->address());
  const ByteSpan address = third.context->address();
  struct Introduced {
    am::Endpoint* peer = nullptr;
    void on_message(btl::Delivery& delivery) noexcept {
      const auto made = am::sender(delivery).context().connect_async(delivery.data);
      if (made) peer = *made;
      EXPECT_TRUE(made && peer->send_or_queue(kTag, {}, {}) == Post::done);
    }
  } introduced;
  ASSERT_TRUE(b.context->set_handler(kTag + 1, btl::bind<&Introduced::on_message>(introduced, "introduced")));
  ASSERT_EQ(to_b->send_or_queue(kTag + 1, address, {}), Post::done);
  ASSERT_TRUE(pump([&] { return third.messages == 1; }, *a.context, *b.context, *third.context));
}

}  // namespace
}  // namespace opal::test
