// SPDX-License-Identifier: Apache-2.0
// Time, order, loss, partitions and crashes of the simulated fabric, and that a seed repeats a run.
#include <gmock/gmock.h>
#include <malloc.h>

#include "tests/btl/sim/world.hpp"

namespace opal::test {
namespace {

using btl::sim::Config;
using btl::sim::Crash;
using btl::sim::FabricUse;
using btl::sim::Packet;

std::uint32_t number_in(const std::vector<std::byte>& message) {
  std::uint32_t number = 0;
  EXPECT_TRUE(read_object(message, number));
  return number;
}

void post(btl::Endpoint& to, std::uint32_t number) {
  ASSERT_EQ(to.module().send_inline(to, kTag, bytes_of(number), {}), Post::done);
}

TEST(SimFabric, AMessageTakesTheLatencyAndTheTimeOnTheWire) {
  World world{{.latency_ns = 5000, .bandwidth = {1'000'000'000}}};  // 1 ns for each byte
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  world.run();
  const std::uint64_t begin = world.fabric().now_ns();
  ASSERT_EQ(a.module().send_inline(*to_b, kTag, {}, pattern(968, 1)), Post::done);
  EXPECT_EQ(world.fabric().now_ns(), begin) << "only step() moves the time of a driven fabric";
  b.module().progress(64);
  EXPECT_TRUE(b.received.empty());
  world.run();
  ASSERT_EQ(b.received.size(), 1U);
  EXPECT_EQ(world.fabric().now_ns() - begin, 5000U + 968U + 32U) << "32 bytes of header";
}

TEST(SimFabric, ADevicesLinkSendsOnePacketAfterTheOther) {
  World world{{.latency_ns = 1000, .bandwidth = {1'000'000'000}}};
  Side& a = world.add();
  Side& b = world.add();
  Side& c = world.add();
  btl::Endpoint* to_b = a.connect(b);
  btl::Endpoint* to_c = a.connect(c);
  world.run();
  const std::uint64_t begin = world.fabric().now_ns();
  ASSERT_EQ(a.module().send_inline(*to_b, kTag, {}, pattern(9968, 1)), Post::done);
  ASSERT_EQ(a.module().send_inline(*to_c, kTag, {}, pattern(9968, 1)), Post::done);
  ASSERT_TRUE(world.run_until([&] { return b.received.size() == 1; }));
  EXPECT_EQ(world.fabric().now_ns() - begin, 11'000U);
  ASSERT_TRUE(world.run_until([&] { return c.received.size() == 1; }));
  EXPECT_EQ(world.fabric().now_ns() - begin, 21'000U);
}

TEST(SimFabric, JitterReordersEndpointsAndNeverOneEndpointsMessages) {
  World world{{.latency_ns = 1000, .jitter_ns = 100'000}};
  Side& a = world.add();
  Side& b = world.add();
  Side& target = world.add();
  btl::Endpoint* from_a = a.connect(target);
  btl::Endpoint* from_b = b.connect(target);
  world.run();
  for (std::uint32_t i = 0; i < 60; ++i) post(i % 2 == 0 ? *from_a : *from_b, i);
  world.run();
  ASSERT_EQ(target.received.size(), 60U);
  std::uint32_t last[2] = {};
  bool overtaken = false;
  std::uint32_t newest = 0;
  for (const auto& message : target.received) {
    const std::uint32_t number = number_in(message);
    EXPECT_GE(number, last[number % 2]);
    last[number % 2] = number;
    overtaken = overtaken || number < newest;
    newest = std::max(newest, number);
  }
  EXPECT_TRUE(overtaken);
}

TEST(SimFabric, LostPacketsAreSentAgainInOrder) {
  World world{{.loss = 0.2, .retries = 50}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  for (std::uint32_t i = 0; i < 500; ++i) {
    while (a.module().send_inline(*to_b, kTag, bytes_of(i), {}) == Post::again) {
      ASSERT_TRUE(world.fabric().step());
      world.settle();
    }
  }
  world.run();
  ASSERT_EQ(b.received.size(), 500U);
  for (std::uint32_t i = 0; i < 500; ++i) ASSERT_EQ(number_in(b.received[i]), i);
  EXPECT_GT(world.fabric().statistics().lost, 50U);
  EXPECT_TRUE(a.failures.empty());
}

TEST(SimFabric, WithoutReliableDevicesLostMessagesAreGoneAndTheRestKeepsItsOrder) {
  World world{{.loss = 0.2, .reliable = false, .retries = 50, .window = 1000}};
  Side& a = world.add({{"window", "1000"}});
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  for (std::uint32_t i = 0; i < 500; ++i) post(*to_b, i);
  world.run();
  EXPECT_GT(b.received.size(), 300U);
  EXPECT_LT(b.received.size(), 480U);
  for (std::size_t i = 1; i < b.received.size(); ++i) ASSERT_LT(number_in(b.received[i - 1]), number_in(b.received[i]));
  EXPECT_TRUE(a.failures.empty());
}

TEST(SimFabric, APartitionThatHealsInTimeOnlyDelays) {
  World world{{.retries = 7, .retry_ns = 100'000}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  world.run();
  world.fabric().set_group(World::node(b), 1);
  for (std::uint32_t i = 0; i < 10; ++i) post(*to_b, i);
  world.fabric().at(world.fabric().now_ns() + 500'000, [&] { world.fabric().heal(); });
  world.run();
  ASSERT_EQ(b.received.size(), 10U);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(number_in(b.received[i]), i);
  EXPECT_GE(world.fabric().now_ns(), 500'000U);
  EXPECT_TRUE(a.failures.empty());
}

TEST(SimFabric, APartitionThatLastsKillsTheEndpointOfWhoeverSends) {
  World world{{.retries = 7, .retry_ns = 100'000}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  world.run();
  std::vector<std::byte> region(4096);
  const auto handle = b.module().register_memory(region.data(), region.size(), Rights::all);
  ASSERT_TRUE(handle);
  world.fabric().set_group(World::node(b), 1);
  const std::uint64_t begin = world.fabric().now_ns();
  post(*to_b, 1);
  CountedCompletion completion;
  std::uint64_t word = 7;
  ASSERT_EQ(a.module().put(*to_b, &word, nullptr, reinterpret_cast<std::uint64_t>(region.data()), *handle, sizeof word,
                           completion),
            Post::queued);
  world.run();
  EXPECT_LE(world.fabric().now_ns() - begin, 1'000'000U);
  ASSERT_EQ(a.failures.size(), 1U);
  EXPECT_EQ(a.failures[0].why.code, Errc::peer_gone);
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, Errc::peer_gone);
  EXPECT_EQ(a.module().send_inline(*to_b, kTag, {}, {}), Post::failed);
  EXPECT_TRUE(b.failures.empty()) << "b has sent nothing and knows nothing";
  world.fabric().heal();
  ASSERT_EQ(b.accepted.size(), 1U);
  post(*b.accepted[0], 2);
  world.run();
  ASSERT_EQ(b.failures.size(), 1U) << "a's end is dead, so what b sends is refused";
  EXPECT_TRUE(a.received.empty());
}

TEST(SimFabric, ACrashedProcessIsReportedToItsPeersAtOnce) {
  World world;
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  post(*to_b, 1);
  world.run();
  world.fabric().crash(World::node(b), Crash::process);
  world.run();
  ASSERT_EQ(a.failures.size(), 1U);
  EXPECT_EQ(a.failures[0].why.code, Errc::peer_gone);
  world.remove(b);
  EXPECT_FALSE(a.module().connect(PeerId::random(), ByteSpan{})) << "no address, no connection";
}

TEST(SimFabric, ASilentHostIsNoticedBySending) {
  World world{{.retries = 3, .retry_ns = 10'000}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  post(*to_b, 1);
  world.run();
  world.fabric().crash(World::node(b), Crash::host);
  world.run();
  EXPECT_TRUE(a.failures.empty());
  post(*to_b, 2);
  world.run();
  EXPECT_EQ(a.failures.size(), 1U);
  EXPECT_EQ(b.received.size(), 1U);
}

TEST(SimFabric, AHostThatHasCrashedStaysSilentWhenItsDeviceIsUnplugged) {
  World world{{.retries = 3, .retry_ns = 10'000}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  post(*to_b, 1);
  world.run();
  world.fabric().crash(World::node(b), Crash::host);
  world.remove(b);
  post(*to_b, 2);
  world.run();
  EXPECT_EQ(a.failures.size(), 1U);
  EXPECT_EQ(world.fabric().statistics().resets, 0U);
  EXPECT_EQ(world.fabric().statistics().given_up, 1U);
}

TEST(SimFabric, ADeviceThatFailsIsReportedToItsOwnSoftwareAndSilentToOthers) {
  World world{{.retries = 3, .retry_ns = 10'000}};
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  post(*to_b, 1);
  world.run();
  world.fabric().crash(World::node(b), Crash::device);
  world.run();
  ASSERT_EQ(b.failures.size(), 1U);
  EXPECT_EQ(b.failures[0].why.code, Errc::peer_gone);
  EXPECT_TRUE(a.failures.empty());
  EXPECT_EQ(b.module().connect(PeerId::random(), a.module().address()).error().code, Errc::unreachable);
  post(*to_b, 2);
  world.run();
  EXPECT_EQ(a.failures.size(), 1U);
  EXPECT_EQ(b.received.size(), 1U);
}

TEST(SimFabric, WhatIsInUseIsCounted) {
  World world;
  EXPECT_EQ(world.fabric().use(), FabricUse{});
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  post(*to_b, 1);
  EXPECT_EQ(world.fabric().use(), (FabricUse{.nodes = 2, .links = 1, .packets = 2}));
  EXPECT_EQ(world.fabric().next_event()->kind, Packet::Kind::connect);
  world.run();
  EXPECT_EQ(world.fabric().use(), (FabricUse{.nodes = 2, .links = 2, .packets = 0}));
  EXPECT_FALSE(world.fabric().next_event());
  world.remove(a);
  world.remove(b);
  world.run();
  EXPECT_EQ(world.fabric().use(), FabricUse{});
}

TEST(SimFabric, AFullWindowRefusesAndTheSenderIsReadyWhenThereIsRoom) {
  World world;
  Side& a = world.add({{"window", "4"}});
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  world.run();
  for (std::uint32_t i = 0; i < 4; ++i) post(*to_b, i);
  const std::uint32_t fifth = 4;
  EXPECT_EQ(a.module().send_inline(*to_b, kTag, bytes_of(fifth), {}), Post::again);
  while (world.fabric().step()) {
  }
  EXPECT_EQ(a.module().send_inline(*to_b, kTag, bytes_of(fifth), {}), Post::again) << "b has not handled any";
  btl::sim::NodeId ready = 0;
  ASSERT_TRUE(world.fabric().next_ready(ready));
  EXPECT_EQ(ready, World::node(b));
  b.module().progress(1);
  ASSERT_TRUE(world.fabric().next_ready(ready));
  EXPECT_EQ(ready, World::node(a));
  EXPECT_EQ(a.module().send_inline(*to_b, kTag, bytes_of(fifth), {}), Post::done);
}

/// What each of five sides received, in order, after random traffic with every kind of trouble.
std::vector<std::vector<std::vector<std::byte>>> history(std::uint64_t seed) {
  World world{{.seed = seed, .jitter_ns = 20'000, .loss = 0.05}};
  std::vector<Side*> sides;
  for (int i = 0; i < 5; ++i) sides.push_back(&world.add());
  btl::sim::Fabric& fabric = world.fabric();
  fabric.at(300'000, [&] { fabric.set_group(World::node(*sides[1]), 1); });
  fabric.at(700'000, [&] { fabric.heal(); });
  fabric.at(900'000, [&] { fabric.crash(World::node(*sides[4]), Crash::process); });
  std::uint32_t next = 0;
  for (int round = 0; round < 400; ++round) {
    Side& from = *sides[fabric.random().up_to(4)];
    Side& to = *sides[fabric.random().up_to(4)];
    if (&from == &to) continue;
    btl::Endpoint& endpoint = *from.connect(to);
    if (from.module().send_inline(endpoint, kTag, bytes_of(next), {}) == Post::done) ++next;
    for (std::uint64_t steps = fabric.random().up_to(5); steps > 0 && fabric.step(); --steps) world.settle();
  }
  world.run();
  std::vector<std::vector<std::vector<std::byte>>> all;
  for (Side* side : sides) all.push_back(side->received);
  return all;
}

TEST(SimFabric, TheSameSeedGivesTheSameRunAndAnotherSeedAnother) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto first = history(seed);
    ASSERT_EQ(first, history(seed)) << "seed " << seed;
    ASSERT_NE(first, history(seed + 1000));
  }
}

TEST(SimFabric, TwoDrivenFabricsOfOneNameAreRefused) {
  Config config;
  config.fabric = fresh_fabric_name();
  const auto first = btl::sim::Fabric::drive(config);
  ASSERT_TRUE(first);
  EXPECT_EQ(btl::sim::Fabric::drive(config).error().code, Errc::invalid_argument);
}

TEST(SimFabric, DevicesOfDifferentFabricsDoNotReachEachOther) {
  World here;
  World there;
  Side& a = here.add();
  Side& b = there.add();
  const auto connected = a.module().connect(b.id(), b.module().address());
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Errc::unreachable);
}

}  // namespace
}  // namespace opal::test
