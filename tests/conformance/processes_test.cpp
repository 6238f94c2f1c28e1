// SPDX-License-Identifier: Apache-2.0
// Two real processes over every transport that joins processes: traffic both ways, and peers killed in the middle.
#include <csignal>
#include <cstring>

#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

class Processes : public ::testing::TestWithParam<std::string> {};
OPAL_CONFORMANCE_SUITE(Processes, crossing_transports);

struct Exposed {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t handle_size;
  std::byte handle[MemoryHandle::kMaxSize];
};

/// A child that opens a side, says where it is and what it exposes, echoes messages, until told to stop.
int echo_server(const std::string& transport, std::size_t region_size, Channel& parent) {
  Side side{transport};
  std::vector<std::byte> region = pattern(region_size, 42);
  const auto handle = side.module().register_memory(region.data(), region.size(), Rights::all);
  if (!handle) return 2;
  side.handler = [&](btl::Delivery& delivery) {
    // A full transport drops the echo: the senders in these tests keep few in flight.
    (void)side.module().send_inline(delivery.from, kTag, delivery.data, {});
  };
  parent.send(side.blob());
  Exposed exposed{reinterpret_cast<std::uint64_t>(region.data()), region.size(), handle->bytes().size(), {}};
  std::memcpy(exposed.handle, handle->bytes().data(), handle->bytes().size());
  parent.send(bytes_of(exposed));
  while (!parent.ready()) side.module().progress(64);
  return parent.expect("stop") ? 0 : 3;
}

struct Server {
  explicit Server(const std::string& transport, std::size_t region_size = 1 << 20)
      : child([=](Channel& parent) { return echo_server(transport, region_size, parent); }) {
    blob = child.channel().receive();
    const auto message = child.channel().receive();
    if (!read_object(message, exposed)) ADD_FAILURE() << "the server did not start";
    handle = *MemoryHandle::from_bytes(ByteSpan{exposed.handle, std::min<std::size_t>(exposed.handle_size, 254)});
  }
  Child child;
  std::vector<std::byte> blob;
  Exposed exposed{};
  MemoryHandle handle;
};

TEST_P(Processes, EchoesComeBackInOrder) {
  Server server{GetParam()};
  Side side{GetParam()};
  btl::Endpoint* route = side.connect(server.blob);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(send(*route, bytes_of(i), pattern(i % 2000, i), side), Post::done);
    if (i % 8 == 7) {
      ASSERT_TRUE(pump([&] { return side.received.size() == i + 1; }, side));
    }
  }
  ASSERT_TRUE(pump([&] { return side.received.size() == 3000; }, side));
  for (std::uint32_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(side.received[i].size(), sizeof i + i % 2000);
    ASSERT_EQ(std::memcmp(side.received[i].data(), &i, sizeof i), 0);
  }
  server.child.channel().send("stop");
  EXPECT_EQ(server.child.wait(), 0);
}

TEST_P(Processes, PutAndGetCrossTheProcessBorder) {
  Server server{GetParam()};
  Side side{GetParam()};
  btl::Endpoint* route = side.connect(server.blob);
  const auto original = pattern(1 << 20, 42);
  const auto bytes = pattern(10'000, 1);
  auto run = [&](const std::function<Post(Completion&)>& operation) {
    CountedCompletion completion;
    Post post = Post::again;
    EXPECT_TRUE(pump([&] { return (post = operation(completion)) != Post::again; }, side));
    if (post == Post::queued) {
      EXPECT_TRUE(pump([&] { return completion.calls == 1; }, side));
    }
    return completion.error.code;
  };
  const std::uint64_t middle = server.exposed.address + 300'001;
  ASSERT_EQ(run([&](Completion& completion) {
              return side.module().put(*route, bytes.data(), nullptr, middle, server.handle, bytes.size(), completion);
            }),
            Errc{});
  std::vector<std::byte> all(original.size());
  ASSERT_EQ(run([&](Completion& completion) {
              return side.module().get(*route, all.data(), nullptr, server.exposed.address, server.handle, all.size(),
                                       completion);
            }),
            Errc{});
  auto expected = original;
  std::copy(bytes.begin(), bytes.end(), expected.begin() + 300'001);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(run([&](Completion& completion) {
              return side.module().put(*route, bytes.data(), nullptr, server.exposed.address + original.size() - 1,
                                       server.handle, 2, completion);
            }),
            Errc::invalid_argument);
  server.child.channel().send("stop");
  EXPECT_EQ(server.child.wait(), 0);
}

TEST_P(Processes, AKilledPeerFailsEveryPendingOperationOnceAndIsReportedOnce) {
  // Killed at different moments: before the first message, after a few, in the middle of a flood.
  for (const std::uint32_t before : {0U, 1U, 20U, 500U}) {
    Server server{GetParam(), 16 << 20};
    Side side{GetParam()};
    btl::Endpoint* route = side.connect(server.blob);
    for (std::uint32_t i = 0; i < before; ++i) ASSERT_EQ(send(*route, bytes_of(i), {}, side), Post::done);
    if (before != 0) {
      ASSERT_TRUE(pump([&] { return !side.received.empty(); }, side));
    }
    // Stopped, so that what is posted now cannot be answered; then killed.
    ::kill(server.child.pid(), SIGSTOP);
    std::vector<std::byte> destination(16 << 20);
    std::vector<CountedCompletion> completions(20);
    std::vector<Post> posts;
    for (CountedCompletion& completion : completions) {
      posts.push_back(side.module().get(*route, destination.data(), nullptr, server.exposed.address, server.handle,
                                        destination.size(), completion));
    }
    server.child.kill();
    const auto payload = pattern(2000, 1);
    ASSERT_TRUE(pump(
        [&] {
          (void)side.module().send_inline(*route, kTag, payload, {});  // goes on as if nothing had happened
          return !side.failures.empty();
        },
        side))
        << "after " << before;
    EXPECT_EQ(side.failures.size(), 1U);
    EXPECT_EQ(side.failures[0].endpoint, route);
    EXPECT_TRUE(route->dead());
    for (std::size_t i = 0; i < completions.size(); ++i) {
      EXPECT_EQ(completions[i].calls, posts[i] == Post::queued ? 1 : 0) << "operation " << i;
    }
    EXPECT_EQ(side.module().send_inline(*route, kTag, payload, {}), Post::failed);
    EXPECT_FALSE(side.module().alloc(*route, 10));
    for (int i = 0; i < 1000; ++i) side.module().progress(64);
    EXPECT_EQ(side.failures.size(), 1U);
    side.module().disconnect(*route);
  }
}

TEST_P(Processes, AKilledPeerDoesNotDisturbTheOthers) {
  Server victim{GetParam()};
  Server survivor{GetParam()};
  Side side{GetParam()};
  btl::Endpoint* to_victim = side.connect(victim.blob);
  btl::Endpoint* to_survivor = side.connect(survivor.blob);
  ASSERT_EQ(send(*to_victim, pattern(8, 1), {}, side), Post::done);
  ASSERT_EQ(send(*to_survivor, pattern(8, 2), {}, side), Post::done);
  ASSERT_TRUE(pump([&] { return side.received.size() == 2; }, side));
  victim.child.kill();
  side.received.clear();
  for (std::uint32_t i = 0; i < 500; ++i) {
    (void)side.module().send_inline(*to_victim, kTag, bytes_of(i), {});
    ASSERT_EQ(send(*to_survivor, bytes_of(i), {}, side), Post::done);
    ASSERT_TRUE(pump(
        [&] {
          return std::any_of(side.received.begin(), side.received.end(),
                             [&](const auto& message) { return std::memcmp(message.data(), &i, sizeof i) == 0; });
        },
        side))
        << i;
    side.received.clear();
  }
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].endpoint, to_victim);
  survivor.child.channel().send("stop");
  EXPECT_EQ(survivor.child.wait(), 0);
}

TEST_P(Processes, SendersKilledWhileTheySendLeaveTheReceiverWorking) {
  std::vector<std::unique_ptr<Child>> flooders;  // all before this process has threads
  for (int round = 0; round < 10; ++round) {
    flooders.push_back(std::make_unique<Child>([&](Channel& parent) {
      const auto target = parent.receive(std::chrono::seconds{120});
      Side own{GetParam()};
      btl::Endpoint* route = own.connect(target);
      const auto payload = pattern(3000, 1);
      for (std::uint32_t i = 0;; ++i) {
        const Post post = own.module().send_inline(*route, kTag, bytes_of(i), ByteSpan{payload}.first(i % 3000));
        if (post == Post::failed) return 1;
        own.module().progress(16);
      }
    }));
  }
  Side side{GetParam()};
  for (int round = 0; round < 10; ++round) {
    Child& flooder = *flooders[static_cast<std::size_t>(round)];
    flooder.channel().send(side.blob());
    const std::size_t wanted = static_cast<std::size_t>(round) * 211 + 1;
    ASSERT_TRUE(pump([&] { return side.received.size() >= wanted; }, side));
    flooder.kill();
    const std::size_t failures = side.failures.size() + 1;
    ASSERT_TRUE(pump([&] { return side.failures.size() == failures; }, side)) << "round " << round;
    side.module().disconnect(*side.failures.back().endpoint);
    side.received.clear();
  }
}

}  // namespace
}  // namespace opal::test
