// SPDX-License-Identifier: Apache-2.0
// Whoever connects to the port: garbage, half a greeting, the wrong greeting, too many; and peers that break the rules
// once they are in.
#include <dirent.h>

#include <random>

#include "opal/btl/tcp/wire.hpp"
#include "tests/btl/tcp/side.hpp"

namespace opal::test {
namespace {

namespace wire = btl::tcp::wire;

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

wire::Hello hello(const PeerId& from, const PeerId& to) {
  return {wire::kHelloMagic, wire::kWireVersion, 4096, from, to};
}

TEST(TcpStrangers, GarbageIsClosedAtOnce) {
  TcpSide side;
  std::mt19937 random{5};
  for (int round = 0; round < 50; ++round) {
    Stranger stranger{side.port()};
    std::vector<std::byte> noise(random() % 300 + 8);
    for (std::byte& one : noise) one = static_cast<std::byte>(random());
    stranger.say(noise);
    ASSERT_TRUE(pump([&] { return stranger.closed(); }, side)) << round;
    EXPECT_TRUE(stranger.heard.empty());
  }
  EXPECT_TRUE(side.accepted.empty());
}

TEST(TcpStrangers, OnlyWhoKnowsTheIdentityIsLetIn) {
  TcpSide side;
  Stranger wrong{side.port()};
  wrong.say(bytes_of(hello(PeerId::random(), PeerId::random())));
  ASSERT_TRUE(pump([&] { return wrong.closed(); }, side));
  EXPECT_TRUE(wrong.heard.empty()) << "and learns nothing";
  Stranger mirror{side.port()};
  mirror.say(bytes_of(hello(side.id, side.id)));
  ASSERT_TRUE(pump([&] { return mirror.closed(); }, side));
  EXPECT_TRUE(side.accepted.empty());
  Stranger right{side.port()};
  right.say(bytes_of(hello(PeerId::random(), side.id)));
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  EXPECT_FALSE(right.closed());
  wire::Welcome welcome{};
  ASSERT_TRUE(read_object(ByteSpan{right.heard}, welcome));
  EXPECT_EQ(welcome.from, side.id);
  EXPECT_EQ(welcome.code, 0U);
}

TEST(TcpStrangers, AnotherVersionIsToldSo) {
  TcpSide side;
  Stranger stranger{side.port()};
  auto newer = hello(PeerId::random(), side.id);
  newer.version = 99;
  stranger.say(bytes_of(newer));
  ASSERT_TRUE(pump([&] { return stranger.closed(); }, side));
  wire::Welcome welcome{};
  ASSERT_TRUE(read_object(ByteSpan{stranger.heard}, welcome));
  EXPECT_EQ(welcome.code, static_cast<std::uint64_t>(Errc::version_mismatch));
}

TEST(TcpStrangers, AGreetingAndFramesMayComeByteByByte) {
  TcpSide side;
  Stranger stranger{side.port()};
  const auto greeting = hello(PeerId::random(), side.id);
  const wire::Frame frame{5, kTag, 1};
  std::vector<std::byte> stream(sizeof greeting + wire::frame_size(5));
  std::memcpy(stream.data(), &greeting, sizeof greeting);
  std::memcpy(stream.data() + sizeof greeting, &frame, sizeof frame);
  std::memcpy(stream.data() + sizeof greeting + sizeof frame, "hello", 5);
  for (const std::byte one : stream) {
    EXPECT_TRUE(side.received.empty());
    stranger.say({&one, 1});
    for (int i = 0; i < 3; ++i) side.module->progress(64);
  }
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
  EXPECT_EQ(std::memcmp(side.received[0].data(), "hello", 5), 0);
}

TEST(TcpStrangers, TheSilentAreClosedAfterATimeAndTheNumberOfThemIsBounded) {
  btl::tcp::Config config = loopback();
  config.half_open = 4;
  config.handshake_timeout = std::chrono::milliseconds{200};
  TcpSide side{config};
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(std::make_unique<Stranger>(side.port()));
    for (int j = 0; j < 20; ++j) side.module->progress(64);
  }
  ASSERT_TRUE(pump([&] { return strangers[5]->closed(); }, side)) << "the oldest go first";
  EXPECT_FALSE(strangers[9]->closed());
  // A good one gets in though the places are taken.
  Stranger good{side.port()};
  good.say(bytes_of(hello(PeerId::random(), side.id)));
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  // The others are closed by the clock, which wakes a sleeper.
  while (!strangers[9]->closed()) {
    if (side.module->arm()) {
      pollfd fd{side.module->wait_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&fd, 1, 10'000), 1);
    }
    side.module->progress(64);
  }
}

TEST(TcpStrangers, APeerThatBreaksTheProtocolFailsItsEndpointOnly) {
  TcpSide side;
  Stranger bad{side.port()};
  Stranger good{side.port()};
  bad.say(bytes_of(hello(PeerId::random(), side.id)));
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  good.say(bytes_of(hello(PeerId::random(), side.id)));
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 2; }, side));
  bad.say(bytes_of(wire::Frame{5000, kTag, 1}));  // more than it announced
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].first, side.accepted[0]);
  EXPECT_EQ(side.failures[0].second.code, Errc::protocol);
  EXPECT_TRUE(bad.closed());
  good.say(bytes_of(wire::Frame{0, kTag, 1}));
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
}

TEST(TcpStrangers, ACountryOfStrangersLeavesNoDescriptorBehind) {
  TcpSide side;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 500; ++i) {
    Stranger stranger{side.port()};
    if (i % 3 == 1) stranger.say(bytes_of(std::uint32_t{1}));
    if (i % 3 == 2) stranger.say(bytes_of(hello(PeerId::random(), side.id)));
    side.module->progress(64);
  }
  ASSERT_TRUE(pump(
      [&] {
        for (const auto& failure : side.failures) side.module->disconnect(*failure.first);
        side.failures.clear();
        return open_descriptors() <= before;
      },
      side))
      << open_descriptors() << " descriptors, were " << before;
}

}  // namespace
}  // namespace opal::test
