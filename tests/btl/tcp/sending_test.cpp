// SPDX-License-Identifier: Apache-2.0
// What happens to messages when the network or the peer is slower than the sender.
#include <linux/filter.h>

#include <algorithm>

#include "opal/btl/tcp/wire.hpp"
#include "tests/btl/tcp/side.hpp"

namespace opal::test {
namespace {

struct Counted : Completion {
  Counted() {
    fn = [](Completion& self) noexcept { ++static_cast<Counted&>(self).calls; };
  }
  int calls = 0;
};

struct TcpSending : ::testing::Test {
  void SetUp() override {
    route = a.connect(b);
    ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
    b.received.clear();
  }
  /// Posts until the transport refuses for good; b does not read.
  std::uint32_t fill(const std::vector<std::byte>& payload) {
    std::uint32_t posted = 0;
    for (int refusals = 0; refusals < 100;) {
      if (a.module->send_inline(*route, kTag, bytes_of(posted), payload) == Post::done) {
        ++posted;
        refusals = 0;
      } else {
        ++refusals;
        a.module->progress(64);
      }
    }
    return posted;
  }
  TcpSide a;
  TcpSide b;
  btl::Endpoint* route = nullptr;
};

TEST_F(TcpSending, ASenderHeldUpSleepsAndIsWokenWhenThePeerReads) {
  const auto payload = pattern(10'000, 1);
  const std::uint32_t posted = fill(payload);
  ASSERT_TRUE(a.module->arm()) << "nothing to do until the peer reads";
  pollfd fd{a.module->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
  ASSERT_TRUE(pump([&] { return b.received.size() > posted / 2; }, b));
  ASSERT_EQ(::poll(&fd, 1, 10'000), 1);
  ASSERT_TRUE(pump([&] { return b.received.size() == posted; }, a, b));
  for (std::uint32_t i = 0; i < posted; ++i) {
    ASSERT_EQ(std::memcmp(b.received[i].data(), &i, sizeof i), 0);
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), b.received[i].begin() + sizeof i));
  }
}

TEST_F(TcpSending, AnEmulatedTransferHeldUpDoesNotKeepTheSenderAwake) {
  std::vector<std::byte> region(64 << 20);
  const auto handle = b.module->register_memory(region.data(), region.size(), Rights::all);
  const auto source = pattern(region.size(), 2);
  Counted completion;
  ASSERT_EQ(a.module->put(*route, source.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()), *handle,
                          region.size(), completion),
            Post::queued);
  // The kernel takes some megabytes; after that there is nothing to do here.
  ASSERT_TRUE(pump([&] { return a.module->arm(); }, a));
  EXPECT_EQ(completion.calls, 0);
  ASSERT_TRUE(pump([&] { return completion.calls == 1; }, a, b));
  EXPECT_TRUE(completion.ok());
  EXPECT_TRUE(region == source);
}

TEST_F(TcpSending, BehindABacklogThereIsNoFragmentForALargeMessage) {
  fill(pattern(20'000, 3));
  EXPECT_FALSE(a.module->alloc(*route, 100'000));
  EXPECT_EQ(route->error().code, Errc{});
  for (const std::size_t too_large : {a.module->attributes().max_send + 1, std::size_t{2} << 20}) {
    route->set_error({});
    EXPECT_FALSE(a.module->alloc(*route, too_large));
    EXPECT_EQ(route->error().code, Errc::invalid_argument) << "not for lack of room";
  }
  const auto message = pattern(1000, 4);  // a short one has room in the queue
  btl::Fragment fragment = a.module->alloc(*route, message.size());
  ASSERT_TRUE(fragment);
  std::copy(message.begin(), message.end(), fragment.data().begin());
  ASSERT_EQ(a.module->send(fragment, kTag), Post::done);
  ASSERT_TRUE(pump([&] { return !b.received.empty() && b.received.back() == message; }, a, b));
  EXPECT_TRUE(a.module->alloc(*route, 100'000));
}

TEST_F(TcpSending, ADisconnectStillDeliversWhatWaits) {
  const std::uint32_t posted = fill(pattern(20'000, 3));
  const auto last = pattern(1000, 6);
  ASSERT_EQ(a.module->send_inline(*route, kTag, {}, last), Post::done);
  a.module->disconnect(*route);
  ASSERT_TRUE(pump([&] { return b.failures.size() == 1; }, a, b));
  ASSERT_EQ(b.received.size(), posted + 1);
  EXPECT_TRUE(b.received.back() == last);
}

TEST_F(TcpSending, APeerThatDiesEndsWhatWaitsOnce) {
  // A peer that reads nothing and then is gone, as a killed process is: unread bytes make the kernel reset.
  auto peer = std::make_unique<RawPeer>(a.port());
  peer->greet(a);
  ASSERT_TRUE(pump([&] { return a.accepted.size() == 1; }, a));
  route = a.accepted[0];
  fill(pattern(20'000, 3));
  std::byte memory[8];
  const auto handle = b.module->register_memory(memory, 8, Rights::all);
  Counted got;
  Counted flushed;
  ASSERT_EQ(a.module->put(*route, memory, nullptr, reinterpret_cast<std::uint64_t>(memory), *handle, 8, got),
            Post::queued);
  ASSERT_EQ(a.module->flush(route, flushed), Post::queued);
  EXPECT_EQ(got.calls, 0);
  peer.reset();
  ASSERT_TRUE(pump([&] { return a.failures.size() == 1; }, a));
  EXPECT_EQ(got.calls, 1);
  EXPECT_EQ(got.error.code, Errc::peer_gone);
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_EQ(a.failures[0].first, route);
  EXPECT_NE(a.failures[0].second.os_errno, 0);
  EXPECT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::failed);
  for (int i = 0; i < 100; ++i) a.module->progress(64);
  EXPECT_EQ(a.failures.size(), 1U);
}

/// A peer as a plain socket, let in by a side with a short timeout.
struct Watched {
  Watched() {
    btl::tcp::Config config = loopback();
    config.peer_timeout = std::chrono::milliseconds{400};
    side = std::make_unique<TcpSide>(config);
    peer = std::make_unique<RawPeer>(side->port());
    peer->greet(*side);
    EXPECT_TRUE(pump([&] { return side->accepted.size() == 1 && !peer->closed() && !peer->heard.empty(); }, *side));
    route = side->accepted.at(0);
  }
  /// Sleeps and progresses, as a waiting program does, for a while or until the endpoint is dead.
  void live(std::chrono::milliseconds time) {
    const Deadline deadline = Deadline::after(time);
    while (!deadline.expired() && !route->dead()) {
      if (side->module->arm()) {
        pollfd fd{side->module->wait_fd(), POLLIN, 0};
        (void)::poll(&fd, 1, deadline.poll_timeout_ms());
      }
      side->module->progress(64);
    }
  }
  std::unique_ptr<TcpSide> side;
  std::unique_ptr<RawPeer> peer;
  btl::Endpoint* route = nullptr;
};

TEST(TcpSilence, AHostThatAnswersNothingAnyMoreIsFoundDead) {
  Watched watched;
  // The peer's kernel drops every packet unseen, as if its cable had been pulled.
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  ASSERT_EQ(::setsockopt(watched.peer->fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  ASSERT_EQ(watched.side->module->send_inline(*watched.route, kTag, pattern(100, 1), {}), Post::done);
  watched.live(std::chrono::seconds{20});
  ASSERT_EQ(watched.side->failures.size(), 1U);
  EXPECT_EQ(watched.side->failures[0].second.code, Errc::peer_gone);
  EXPECT_EQ(watched.side->failures[0].second.os_errno, ETIMEDOUT);
}

TEST(TcpSilence, APeerThatMerelyDoesNotReadLivesOn) {
  Watched watched;
  const auto payload = pattern(20'000, 1);
  std::size_t posted = 0;
  for (int refusals = 0; refusals < 100;) {
    const Post post = watched.side->module->send_inline(*watched.route, kTag, payload, {});
    ASSERT_NE(post, Post::failed);
    posted += post == Post::done ? 1 : 0;
    refusals = post == Post::done ? 0 : refusals + 1;
    watched.side->module->progress(64);
  }
  watched.live(std::chrono::milliseconds{2500});
  ASSERT_FALSE(watched.route->dead()) << to_string(watched.route->error());
  const std::size_t expected = sizeof(btl::tcp::wire::Welcome) + posted * btl::tcp::wire::frame_size(payload.size());
  ASSERT_TRUE(pump([&] { return !watched.peer->closed() && watched.peer->heard.size() == expected; }, *watched.side));
}

TEST_F(TcpSending, LargePayloadsArriveUnchangedFromEveryPlaceInAPage) {
  constexpr std::size_t kSize = 5000;
  std::vector<std::byte> memory(2 * kSize + 4096);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::size_t sent = 0;
  for (std::size_t offset = 0; offset < 256; ++offset) {
    for (const std::size_t header : {0U, 4U, 12U}) {
      const ByteSpan before = ByteSpan{memory}.last(header);
      const ByteSpan payload = ByteSpan{memory}.subspan(offset, kSize - offset);
      ASSERT_EQ(a.module->send_inline(*route, kTag, before, payload), Post::done);
      ++sent;
      ASSERT_TRUE(pump([&] { return b.received.size() == sent; }, a, b));
      std::vector<std::byte> expected{before.begin(), before.end()};
      expected.insert(expected.end(), payload.begin(), payload.end());
      ASSERT_EQ(b.received.back(), expected) << offset << " " << header;
    }
  }
}

struct Batch : TcpSending {
  void send(std::uint32_t number, std::size_t size) {
    std::vector<std::byte> payload(size, static_cast<std::byte>(number));
    ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(number), payload), Post::done);
  }
  void send_by_fragment(std::uint32_t number) {
    btl::Fragment fragment = a.module->prepare_src(*route, bytes_of(number), {});
    ASSERT_TRUE(fragment);
    ASSERT_EQ(a.module->send(fragment, kTag), Post::done);
  }
  void expect_received(std::uint32_t count) {
    ASSERT_TRUE(pump([&] { return b.received.size() == count; }, b));
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t number = 0;
      ASSERT_TRUE(read_object(ByteSpan{b.received[i]}, number));
      EXPECT_EQ(number, i);
    }
  }
};

TEST_F(Batch, ItsShortMessagesLeaveAtItsEnd) {
  a.module->begin_batch();
  for (std::uint32_t i = 0; i < 100; ++i) i % 2 == 0 ? send(i, 8) : send_by_fragment(i);
  for (int i = 0; i < 1000; ++i) b.module->progress(64);
  EXPECT_TRUE(b.received.empty());
  a.module->end_batch();
  expect_received(100);
}

TEST_F(Batch, LeavesEarlierForALongMessageAndForProgress) {
  a.module->begin_batch();
  send(0, 8);
  send(1, 60'000);
  expect_received(2);
  send(2, 8);
  a.module->progress(64);
  expect_received(3);
  for (std::uint32_t i = 3; i < 103; ++i) send(i, 1000);  // more than is held back at a time
  ASSERT_TRUE(pump([&] { return b.received.size() > 30; }, b));
  a.module->end_batch();
  expect_received(103);
}

TEST_F(Batch, AnEndpointThatIsDisconnectedInItStillSendsWhatWasHeldBack) {
  a.module->begin_batch();
  for (std::uint32_t i = 0; i < 10; ++i) send(i, 8);
  a.module->disconnect(*route);
  a.module->end_batch();
  expect_received(10);
}

TEST_F(Batch, AnswersOfHandlersLeaveTogetherWhenProgressEnds) {
  b.handler = [&](btl::Delivery& delivery) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(b.module->send_inline(delivery.from, kTag, {}, delivery.data), Post::done);
    }
  };
  for (std::uint32_t i = 0; i < 10; ++i) send(i, 8);
  ASSERT_TRUE(pump([&] { return a.received.size() == 100; }, a, b));
}

TEST_F(TcpSending, FragmentsRunOutAndComeBack) {
  std::vector<btl::Fragment> taken;
  while (btl::Fragment fragment = a.module->alloc(*route, 100)) taken.push_back(std::move(fragment));
  EXPECT_EQ(taken.size(), 256U);
  taken.pop_back();
  EXPECT_TRUE(a.module->alloc(*route, 100));
  std::memset(taken.back().data().data(), 7, 100);
  ASSERT_EQ(a.module->send(taken.back(), kTag), Post::done);
  taken.pop_back();
  EXPECT_TRUE(a.module->alloc(*route, 100)) << "sent ones come back too";
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  EXPECT_EQ(b.received[0], std::vector<std::byte>(100, std::byte{7}));
}

TEST_F(TcpSending, TheBudgetOfProgressIsKeptAndTheRestIsNotForgotten) {
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(i), {}), Post::done);
  ASSERT_TRUE(pump([&] {
    b.module->progress(3);
    return !b.received.empty();
  }));
  EXPECT_LE(b.received.size(), 3U);
  while (b.received.size() < 10) {
    const std::size_t before = b.received.size();
    ASSERT_FALSE(b.module->arm()) << "messages wait in the buffer or the socket";
    b.module->progress(3);
    EXPECT_LE(b.received.size(), before + 3);
  }
}

}  // namespace
}  // namespace opal::test
