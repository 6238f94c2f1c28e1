// SPDX-License-Identifier: Apache-2.0
// What a Context promises whatever the transport: tags that are none, peers that come and go, disconnecting with
// messages under way.
#include <sys/resource.h>

#include <cstdio>

#include "opal/core/sanitizer.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/process.hpp"

namespace opal::test {
namespace {

class Contexts : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] bool alone() const { return GetParam() == "self"; }
  Side& b() { return alone() ? a : other; }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a.context, *b().context);
  }
  am::Endpoint& connect() { return **a.context->connect(b().context->address()); }
  Side a{GetParam()};
  Side other{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Over, Contexts, ::testing::ValuesIn(joining_transports(btl::Reach::itself)),
                         [](const auto& info) { return info.param; });

class ContextsOfTwo : public Contexts {};
INSTANTIATE_TEST_SUITE_P(Over, ContextsOfTwo, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Contexts, WhatIsNoTagIsRefusedAndHurtsNeitherSide) {
  am::Endpoint& to_b = connect();
  ASSERT_EQ(to_b.send_or_queue(kTag, {}, {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().messages == 1; }));
  for (const Tag tag : {Tag{0}, Tag{0xffff}}) {
    EXPECT_EQ(to_b.send_inline(tag, bytes_of(std::uint64_t{1}), {}), Post::failed);
    EXPECT_EQ(to_b.error().code, Errc::invalid_argument);
    EXPECT_EQ(to_b.send_or_queue(tag, {}, {}), Post::failed);
    if (btl::Fragment fragment = to_b.alloc(8)) {
      EXPECT_EQ(to_b.send(fragment, tag), Post::failed);
    }
  }
  EXPECT_FALSE(to_b.dead());
  for (std::size_t i = 2; i <= 300; ++i) {  // more than any ring has room for
    ASSERT_EQ(to_b.send_or_queue(kTag, std::vector<std::byte>(4000), {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().messages == i; }));
  }
  EXPECT_EQ(a.failed + b().failed, 0);
}

/// Every message has a sender.
struct Senders {
  void on_message(btl::Delivery& delivery) noexcept {
    ++count;
    if (delivery.from.upper == nullptr) ++without;
  }
  int count = 0;
  int without = 0;
};

TEST_P(Contexts, DisconnectingWhileMessagesWaitDeliversNoneWithoutASender) {
  Senders senders;
  ASSERT_TRUE(b().context->set_handler(kTag + 1, btl::bind<&Senders::on_message>(senders, "senders")));
  for (int round = 0; round < 10; ++round) {
    am::Endpoint& to_b = connect();
    const std::size_t had = b().messages;
    ASSERT_EQ(to_b.send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().messages == had + 1; }));
    for (int i = 0; i < 20; ++i) ASSERT_EQ(to_b.send_or_queue(kTag + 1, {}, {}), Post::done);
    if (!alone()) b().context->disconnect(*b().from);
    if (!alone()) {
      ASSERT_TRUE(pump_both([&] { return to_b.dead(); }));
    }
    a.context->disconnect(to_b);
    for (int i = 0; i < 100; ++i) {
      a.context->progress();
      b().context->progress();
    }
  }
  EXPECT_EQ(senders.without, 0);
}

std::size_t resident_kib() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long all = 0;
  unsigned long resident = 0;
  if (std::fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
  (void)std::fclose(file);
  return resident * 4;
}

/// What the accepting side does with endpoints that have died.
enum class Reaping { never, later };

void reconnect(const std::string& transport, Reaping reaping) {
  constexpr std::size_t kTimes = 1000;
  Side client{transport};
  Side server{transport};
  std::size_t fds = 0;
  std::size_t memory = 0;
  for (std::size_t i = 1; i <= kTimes; ++i) {
    if (i == 100) {
      fds = open_descriptors();
      memory = resident_kib();
    }
    am::Endpoint& peer = **client.context->connect(server.context->address());
    ASSERT_EQ(peer.send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return server.messages == i; }, *client.context, *server.context)) << i;
    client.context->disconnect(peer);
    ASSERT_TRUE(pump([&] { return server.failed == static_cast<int>(i); }, *client.context, *server.context)) << i;
    ASSERT_EQ(server.connected.size(), i) << "each time a new endpoint";
    if (reaping == Reaping::later && i > 2) server.context->disconnect(*server.connected[i - 3]);
  }
  EXPECT_EQ(client.failed, 0);
  // The transport's threads may close them a little later.
  EXPECT_TRUE(pump([&] { return open_descriptors() <= fds + 8; }, *client.context, *server.context))
      << open_descriptors();
  // A dead endpoint is some 600 bytes.
  if (!OPAL_ADDRESS_SANITIZER) {  // which keeps what was freed
    // libfabric uses the buffers of its pools in turn, so it touches more of them with each connection.
    const std::size_t pools = transport == "ofi" ? 2048 : 0;
    EXPECT_LE(resident_kib(), memory + pools + (reaping == Reaping::never ? 2048 : 1024));
  }
}

TEST_P(ContextsOfTwo, AThousandReconnectsToASideThatNeverDisconnectsCostNoDescriptorsAndLittleMemory) {
  reconnect(GetParam(), Reaping::never);
}

TEST_P(ContextsOfTwo, AThousandReconnectsToASideThatDisconnectsTheDeadCostNothing) {
  reconnect(GetParam(), Reaping::later);
}

/// Disconnects after progress() what it was told of inside.
struct Reaper final : am::Observer {
  explicit Reaper(const std::string& transport) {
    config::Store store;
    store.set("am_transports", transport);
    context = std::move(*am::Context::open(store, {.observer = this, .registry = &all_transports()}));
    EXPECT_TRUE(context->set_handler(kTag, btl::bind<&Reaper::on_message>(*this, "echo")));
  }
  void on_message(btl::Delivery& delivery) noexcept { (void)am::sender(delivery).send_or_queue(kTag, {}, {}); }
  void on_peer_failed(am::Endpoint& peer, const Error&) noexcept override { dead.push_back(&peer); }
  std::size_t progress() {
    const std::size_t count = context->progress();
    for (am::Endpoint* peer : std::exchange(dead, {})) context->disconnect(*peer);
    return count;
  }
  std::vector<am::Endpoint*> dead;
  std::unique_ptr<am::Context> context;
};

TEST_P(ContextsOfTwo, DisconnectingTheDeadLeavesTheConnectionsOfPeersThatCameBackAlone) {
  Reaper server{GetParam()};
  Side client{GetParam()};
  for (std::size_t i = 1; i <= 300; ++i) {
    // At once: the server hears of the end and of the new beginning in one round.
    am::Endpoint& peer = **client.context->connect(server.context->address());
    ASSERT_EQ(peer.send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return client.messages == i; }, *client.context, server)) << i;
    client.context->disconnect(peer);
  }
  EXPECT_EQ(client.failed, 0);
}

/// A service that never disconnects a peer.
class Service : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, Service, ::testing::ValuesIn(joining_transports(btl::Reach::others)),
                         [](const auto& info) { return info.param; });

TEST_P(Service, With256DescriptorsServes300ClientsThatCameAndWent) {
  Child service{[&](Channel& parent) {
    const rlimit limit{256, 256};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    Reaper server{GetParam()};  // its progress() is not called: nothing is disconnected
    const auto where = server.context->listen("127.0.0.1:0");
    if (!where) return 2;
    parent.send(*where);
    while (!parent.ready()) server.context->wait(std::chrono::milliseconds{1});
    return parent.expect("stop") ? 0 : 3;
  }};
  const auto bytes = service.channel().receive();
  const std::string where{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  for (int i = 0; i < 300; ++i) {
    Side client{GetParam()};
    const auto peer = client.context->connect_to(where, std::chrono::seconds{20});
    ASSERT_TRUE(peer) << i << ": " << to_string(peer.error());
    ASSERT_EQ((*peer)->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return client.messages == 1; }, *client.context)) << i;
  }
  Side returning{GetParam()};  // and one that comes again and again by the same Context
  for (std::size_t i = 1; i <= 20; ++i) {
    const auto peer = returning.context->connect_to(where, std::chrono::seconds{20});
    ASSERT_TRUE(peer) << i << ": " << to_string(peer.error());
    ASSERT_EQ((*peer)->send_or_queue(kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return returning.messages == i; }, *returning.context)) << i;
    returning.context->disconnect(**peer);
  }
  service.channel().send("stop");
  EXPECT_EQ(service.wait(), 0);
}

}  // namespace
}  // namespace opal::test
