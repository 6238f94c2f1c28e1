// SPDX-License-Identifier: Apache-2.0
// Connections of other programs: garbage, half a handshake, the wrong one, too many; and peers that break the rules
// once they are in.

#include <random>

#include "opal/btl/tcp/wire.hpp"
#include "tests/btl/tcp/side.hpp"
#include "tests/harness/process.hpp"

namespace opal::test {
namespace {

namespace wire = btl::tcp::wire;

TEST(TcpUnauthenticatedPeers, GarbageIsClosedAndLearnsNothing) {
  TcpSide side;
  std::mt19937 random{5};
  for (int round = 0; round < 50; ++round) {
    RawPeer raw_peer{side.port()};
    std::vector<std::byte> noise(random() % 300 + sizeof(wire::Hello));
    for (std::byte& one : noise) one = static_cast<std::byte>(random());
    raw_peer.say(noise);
    ASSERT_TRUE(pump([&] { return raw_peer.closed(); }, side)) << round;
    EXPECT_LE(raw_peer.heard.size(), sizeof(wire::Challenge));
  }
  EXPECT_TRUE(side.accepted.empty());
}

TEST(TcpUnauthenticatedPeers, OnlyAPeerWithTheAddressIsAccepted) {
  TcpSide side;
  RawPeer wrong{side.port()};
  wrong.greet(side, PeerId::random(), side.id, 4096, Secret{}.derive(wire::kConnectionKey, bytes_of(fresh_nonce())));
  ASSERT_TRUE(pump([&] { return wrong.closed(); }, side));
  EXPECT_TRUE(wrong.heard.empty()) << "and learns nothing";
  RawPeer lost{side.port()};
  lost.greet(side, PeerId::random(), PeerId::random(), 4096, side.key());
  ASSERT_TRUE(pump([&] { return lost.closed(); }, side));
  RawPeer mirror{side.port()};
  mirror.greet(side, side.id);
  ASSERT_TRUE(pump([&] { return mirror.closed(); }, side));
  RawPeer large{side.port()};
  large.greet(side, PeerId::random(), std::uint64_t{1} << 32);
  ASSERT_TRUE(pump([&] { return large.closed(); }, side));
  EXPECT_TRUE(side.accepted.empty());
  RawPeer right{side.port()};
  right.greet(side);
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1 && (right.closed() || !right.heard.empty()); }, side));
  EXPECT_EQ(right.heard.size(), sizeof(wire::Welcome));
}

TEST(TcpUnauthenticatedPeers, OnlyAPeerWithTheSecretOfTheJobConnects) {
  const Secret ours = *Secret::from_text("the secret of this job");
  TcpSide a{loopback(), PeerId::random(), ours};
  TcpSide b{loopback(), PeerId::random(), ours};
  btl::Endpoint* route = a.connect(b);
  ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  TcpSide other_job{loopback(), PeerId::random(), *Secret::from_text("the secret of another job")};
  route = other_job.connect(b);
  ASSERT_TRUE(pump([&] { return other_job.failures.size() == 1; }, other_job, b));
  EXPECT_EQ(other_job.failures[0].second.code, Errc::unreachable);
  EXPECT_EQ(b.accepted.size(), 1U);
}

TEST(TcpUnauthenticatedPeers, AProofIsGoodForOneConnectionOnly) {
  TcpSide side;
  RawPeer first{side.port()};
  const wire::Hello hello = first.answer_to(side, PeerId::random(), side.id, 4096, side.key());
  first.say(bytes_of(hello));
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  RawPeer replay{side.port()};
  replay.say(bytes_of(hello));
  ASSERT_TRUE(pump([&] { return replay.closed(); }, side));
  EXPECT_EQ(side.accepted.size(), 1U);
}

TEST(TcpUnauthenticatedPeers, NoByteOfAHelloMayChange) {
  TcpSide side;
  for (std::size_t i = 0; i < sizeof(wire::Hello); ++i) {
    RawPeer raw_peer{side.port()};
    const wire::Hello hello = raw_peer.answer_to(side, PeerId::random(), side.id, 4096, side.key());
    std::array<std::byte, sizeof hello> bytes;
    std::memcpy(bytes.data(), &hello, sizeof hello);
    bytes[i] ^= std::byte{1};
    raw_peer.say(bytes);
    ASSERT_TRUE(pump([&] { return raw_peer.closed(); }, side)) << i;
  }
  EXPECT_TRUE(side.accepted.empty());
}

/// A side that dials a program which answers `challenge` and then `welcome`.
Error answer_of_dialer(const wire::Challenge& challenge, ByteSpan welcome) {
  btl::tcp::Config config = loopback();
  config.connect_timeout = std::chrono::milliseconds{5000};
  TcpSide side{config};
  Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(::listen(listener.get(), 8), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  btl::tcp::Address address = *btl::tcp::decode(side.module->address());
  address.id = PeerId::random();
  address.sockets = {*btl::SocketAddress::from(reinterpret_cast<const sockaddr&>(at))};
  EXPECT_TRUE(side.module->connect(address.id, btl::tcp::encode(address)));
  std::vector<RawPeer> taken;
  EXPECT_TRUE(pump(
      [&] {
        if (Fd fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)}) {
          taken.emplace_back(std::move(fd));
          taken.back().say(bytes_of(challenge));
          taken.back().say(welcome);
        }
        return side.failures.size() == 1;
      },
      side));
  return side.failures.empty() ? Error{} : side.failures[0].second;
}

wire::Challenge make_challenge() { return {wire::kMagic, wire::kWireVersion, 0, fresh_nonce()}; }

TEST(TcpUnauthenticatedPeers, TheDialerAcceptsNoPeerWithoutAProof) {
  const std::array<std::byte, sizeof(wire::Welcome)> nothing{};
  EXPECT_EQ(answer_of_dialer(make_challenge(), nothing).code, Errc::permission);
  wire::Challenge foreign = make_challenge();
  foreign.magic ^= 1;
  EXPECT_EQ(answer_of_dialer(foreign, nothing).code, Errc::unreachable);
}

TEST(TcpUnauthenticatedPeers, AnotherVersionIsCalledSo) {
  wire::Challenge newer = make_challenge();
  newer.version = 99;
  const Error why = answer_of_dialer(newer, {});
  EXPECT_EQ(why.code, Errc::version_mismatch);
  EXPECT_EQ(why.detail, 99U);
}

TEST(TcpUnauthenticatedPeers, AGreetingAndFramesMayComeByteByByte) {
  TcpSide side;
  RawPeer raw_peer{side.port()};
  const auto greeting = raw_peer.answer_to(side, PeerId::random(), side.id, 4096, side.key());
  const wire::Frame frame{5, kTag, 1};
  std::vector<std::byte> stream(sizeof greeting + wire::frame_size(5));
  std::memcpy(stream.data(), &greeting, sizeof greeting);
  std::memcpy(stream.data() + sizeof greeting, &frame, sizeof frame);
  std::memcpy(stream.data() + sizeof greeting + sizeof frame, "hello", 5);
  for (const std::byte one : stream) {
    EXPECT_TRUE(side.received.empty());
    raw_peer.say({&one, 1});
    for (int i = 0; i < 3; ++i) side.module->progress(64);
  }
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
  EXPECT_EQ(std::memcmp(side.received[0].data(), "hello", 5), 0);
}

TEST(TcpUnauthenticatedPeers, TheSilentAreClosedAfterATimeAndTheNumberOfThemIsBounded) {
  btl::tcp::Config config = loopback();
  config.max_pending = 4;
  config.handshake_timeout = std::chrono::milliseconds{200};
  TcpSide side{config};
  std::vector<std::unique_ptr<RawPeer>> raw_peers;
  for (int i = 0; i < 10; ++i) {
    raw_peers.push_back(std::make_unique<RawPeer>(side.port()));
    for (int j = 0; j < 20; ++j) side.module->progress(64);
  }
  ASSERT_TRUE(pump([&] { return raw_peers[5]->closed(); }, side)) << "the oldest go first";
  EXPECT_FALSE(raw_peers[9]->closed());
  // A good one gets in though the places are taken.
  RawPeer good{side.port()};
  good.greet(side);
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  // The others are closed by the clock, which wakes a sleeper.
  while (!raw_peers[9]->closed()) {
    if (side.module->arm()) {
      pollfd fd{side.module->wait_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&fd, 1, 10'000), 1);
    }
    side.module->progress(64);
  }
}

TEST(TcpUnauthenticatedPeers, APeerThatBreaksTheProtocolFailsItsEndpointOnly) {
  TcpSide side;
  RawPeer bad{side.port()};
  RawPeer good{side.port()};
  bad.greet(side);
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  good.greet(side);
  ASSERT_TRUE(pump([&] { return side.accepted.size() == 2; }, side));
  bad.say(bytes_of(wire::Frame{5000, kTag, 1}));  // more than it announced
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].first, side.accepted[0]);
  EXPECT_EQ(side.failures[0].second.code, Errc::protocol);
  EXPECT_TRUE(bad.closed());
  good.say(bytes_of(wire::Frame{0, kTag, 1}));
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
}

TEST(TcpUnauthenticatedPeers, ACountryOfStrangersLeavesNoDescriptorBehind) {
  TcpSide side;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 500; ++i) {
    RawPeer raw_peer{side.port()};
    if (i % 3 == 1) raw_peer.say(bytes_of(std::uint32_t{1}));
    if (i % 3 == 2) raw_peer.greet(side);
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
