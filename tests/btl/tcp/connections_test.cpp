// SPDX-License-Identifier: Apache-2.0
// Connections between two modules: how they come about, which of two stays, how they end, how a peer comes back.
#include <random>
#include <thread>

#include "opal/btl/tcp/wire.hpp"
#include "tests/btl/tcp/side.hpp"
#include "tests/harness/in_child.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::test {
namespace {

namespace wire = btl::tcp::wire;
using std::chrono::milliseconds;

/// A socket that listens and does nothing else.
struct Mute {
  Mute() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(fd.get(), 16), 0);
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
    address = *btl::SocketAddress::from(reinterpret_cast<const sockaddr&>(bound));
  }
  Fd fd;
  btl::SocketAddress address;
};

/// A blob of `peer` with other sockets in front of its own.
std::vector<std::byte> blob_with(const TcpSide& peer, const std::vector<btl::SocketAddress>& in_front) {
  btl::tcp::Address address = *btl::tcp::decode(peer.module->address());
  address.sockets.insert(address.sockets.begin(), in_front.begin(), in_front.end());
  return btl::tcp::encode(address);
}

/// Sleeps on the module's descriptor whenever it allows it, as a waiting program does.
[[nodiscard]] bool sleep_until(const std::function<bool()>& condition, TcpSide& side) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!condition()) {
    if (deadline.expired()) return false;
    if (side.module->arm()) {
      pollfd fd{side.module->wait_fd(), POLLIN, 0};
      if (::poll(&fd, 1, deadline.poll_timeout_ms()) != 1) return false;
    }
    side.module->progress(64);
  }
  return true;
}

TEST(TcpConnections, AnAddressThatRefusesIsSkipped) {
  TcpSide a;
  TcpSide b;
  btl::SocketAddress refused;
  {
    const Mute gone;
    refused = gone.address;
  }
  btl::Endpoint* route = *a.module->connect(b.id, blob_with(b, {refused}));
  ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(1), {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
}

TEST(TcpConnections, ASilentAddressDelaysNoOtherPeer) {
  btl::tcp::Config config = loopback();
  config.stagger = milliseconds{20};
  TcpSide a{config};
  TcpSide b;
  const Mute first;
  const Mute second;
  btl::Endpoint* route = *a.module->connect(b.id, blob_with(b, {first.address, second.address}));
  ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(1), {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
}

TEST(TcpConnections, SomebodyElseBehindTheAddressIsNotThePeer) {
  TcpSide a;
  TcpSide other;
  btl::tcp::Address address = *btl::tcp::decode(other.module->address());
  address.id = PeerId::random();
  btl::Endpoint* route = *a.module->connect(address.id, btl::tcp::encode(address));
  ASSERT_TRUE(pump([&] { return a.failures.size() == 1; }, a, other));
  EXPECT_EQ(a.failures[0].first, route);
  EXPECT_EQ(a.failures[0].second.code, Errc::unreachable);
  EXPECT_TRUE(other.accepted.empty());
}

TEST(TcpConnections, AnUnreachablePeerIsReportedWithATableOfWhatWasTried) {
  btl::tcp::Config config = loopback();
  config.stagger = milliseconds{10};
  config.connect_timeout = milliseconds{50};
  config.welcome_timeout = milliseconds{150};
  TcpSide a{config};
  btl::SocketAddress refused;
  {
    const Mute gone;
    refused = gone.address;
  }
  const Mute mute;
  const btl::tcp::Address address{
      PeerId::random(), {}, btl::tcp::decode(a.module->address())->host, {refused, mute.address}};
  btl::Endpoint* route = *a.module->connect(address.id, btl::tcp::encode(address));
  EXPECT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done) << "waits for the connection";
  ASSERT_TRUE(sleep_until([&] { return a.failures.size() == 1; }, a)) << "the clock must wake the sleeper";
  EXPECT_EQ(a.failures[0].second.code, Errc::unreachable);
  EXPECT_TRUE(route->dead());
  const std::string text = route->describe();
  EXPECT_NE(text.find(to_string(refused)), std::string::npos) << text;
  EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
  EXPECT_NE(text.find(to_string(mute.address)), std::string::npos) << text;
  EXPECT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::failed);
  a.module->disconnect(*route);
}

/// Progresses `side` alone for `time`, as the other side does not while it computes.
void progress_for(milliseconds time, TcpSide& side) {
  const Deadline deadline = Deadline::after(time);
  while (!deadline.expired()) side.module->progress(64);
}

TEST(TcpConnections, TimeWithoutProgressOfTheConnectorIsNotThePeersSilence) {
  btl::tcp::Config config = loopback();
  config.connect_timeout = milliseconds{50};
  TcpSide a{config};
  TcpSide b;
  btl::Endpoint* route = a.connect(b);
  ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(1), {}), Post::done);
  std::this_thread::sleep_for(milliseconds{100});
  ASSERT_TRUE(pump([&] { return b.received.size() == 1 || !a.failures.empty(); }, a, b));
  EXPECT_TRUE(a.failures.empty()) << to_string(a.failures[0].second);
}

TEST(TcpConnections, TimeWithoutProgressOfTheAcceptorIsNotThePeersSilence) {
  btl::tcp::Config config = loopback();
  config.handshake_timeout = milliseconds{50};
  TcpSide a;
  TcpSide b{config};
  btl::Endpoint* route = a.connect(b);
  ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(1), {}), Post::done);
  while (b.received.empty() && a.failures.empty()) {
    b.module->progress(64);
    progress_for(milliseconds{100}, a);
  }
  EXPECT_TRUE(a.failures.empty()) << to_string(a.failures[0].second);
}

TEST(TcpConnections, AConnectorThatFindsItsAttemptClosedAfterItsTimeTriesAgain) {
  btl::tcp::Config config = loopback();
  config.connect_timeout = config.welcome_timeout = milliseconds{300};
  config.handshake_timeout = milliseconds{50};
  TcpSide a{config};
  TcpSide b{config};
  btl::Endpoint* route = a.connect(b);
  ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(1), {}), Post::done);
  progress_for(milliseconds{400}, b);  // it closes the connection
  ASSERT_TRUE(pump([&] { return b.received.size() == 1 || !a.failures.empty(); }, a, b));
  EXPECT_TRUE(a.failures.empty()) << to_string(a.failures[0].second);
}

TEST(TcpConnections, LoopbackOfAnotherHostIsNotTried) {
  TcpSide a;
  TcpSide b;
  btl::tcp::Address address = *btl::tcp::decode(b.module->address());
  address.host += 2;
  const auto route = a.module->connect(b.id, btl::tcp::encode(address));
  ASSERT_FALSE(route);
  EXPECT_EQ(route.error().code, Errc::unreachable);
}

TEST(TcpConnections, ABlobOfSomebodyElseAndOneselfAreRefused) {
  TcpSide a;
  TcpSide b;
  EXPECT_EQ(a.module->connect(PeerId::random(), b.module->address()).error().code, Errc::protocol);
  EXPECT_EQ(a.module->connect(a.id, a.module->address()).error().code, Errc::unreachable);
}

TEST(TcpConnections, WhoeverConnectsFirstTwoSidesEndWithOneConnection) {
  std::mt19937 random{11};
  for (int round = 0; round < 150; ++round) {
    TcpSide left{loopback(), PeerId{1, random()}};
    TcpSide right{loopback(), PeerId{2, random()}};
    btl::Endpoint* to_right = nullptr;
    btl::Endpoint* to_left = nullptr;
    constexpr std::uint32_t kEach = 10;
    std::uint32_t sent[2] = {};
    // Steps in random order: connects, posts and progress of either side.
    ASSERT_TRUE(pump([&] {
      TcpSide& side = random() % 2 == 0 ? left : right;
      TcpSide& other = &side == &left ? right : left;
      btl::Endpoint*& route = &side == &left ? to_right : to_left;
      std::uint32_t& number = sent[&side == &left ? 0 : 1];
      if (random() % 2 == 0) {
        side.module->progress(random() % 3 + 1);
      } else if (route == nullptr) {
        route = side.connect(other);
      } else if (number < kEach && side.module->send_inline(*route, kTag, bytes_of(number), {}) == Post::done) {
        ++number;
      }
      return left.received.size() == kEach && right.received.size() == kEach;
    })) << "round "
        << round << ": " << left.received.size() << " and " << right.received.size();
    for (std::uint32_t i = 0; i < kEach; ++i) {
      EXPECT_EQ(std::memcmp(left.received[i].data(), &i, sizeof i), 0);
      EXPECT_EQ(std::memcmp(right.received[i].data(), &i, sizeof i), 0);
    }
    EXPECT_TRUE(left.failures.empty());
    EXPECT_TRUE(right.failures.empty());
    EXPECT_LE(left.accepted.size() + right.accepted.size(), 1U);
  }
}

TEST(TcpConnections, AGoodbyeAndADeathAreToldApart) {
  TcpSide a;
  TcpSide b;
  btl::Endpoint* route = a.connect(b);
  ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  a.module->disconnect(*route);
  ASSERT_TRUE(pump([&] { return b.failures.size() == 1; }, a, b));
  EXPECT_EQ(b.failures[0].second.code, Errc::peer_gone);
  EXPECT_EQ(b.failures[0].second.os_errno, 0) << "a disconnect is no failure of the network";
  EXPECT_TRUE(a.failures.empty());
  {
    RawPeer dying{b.port()};
    dying.greet(b);
    ASSERT_TRUE(pump([&] { return b.accepted.size() == 2; }, b));
  }
  ASSERT_TRUE(pump([&] { return b.failures.size() == 2; }, b));
  EXPECT_EQ(b.failures[1].second.code, Errc::peer_gone);
  EXPECT_NE(b.failures[1].second.os_errno, 0);
}

TEST(TcpConnections, WhatWasPostedBeforeADisconnectArrives) {
  for (const bool connected : {false, true}) {
    TcpSide a;
    TcpSide b;
    btl::Endpoint* route = a.connect(b);
    if (connected) {
      ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
      ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
      b.received.clear();
    }
    const auto payload = pattern(5000, 1);
    std::uint32_t posted = 0;
    while (a.module->send_inline(*route, kTag, bytes_of(posted), payload) == Post::done) ++posted;
    a.module->disconnect(*route);
    ASSERT_TRUE(pump([&] { return b.failures.size() == 1; }, a, b));
    ASSERT_EQ(b.received.size(), posted) << (connected ? "connected" : "not yet connected");
    for (std::uint32_t i = 0; i < posted; ++i) {
      ASSERT_EQ(std::memcmp(b.received[i].data(), &i, sizeof i), 0);
    }
    EXPECT_EQ(b.failures[0].second.os_errno, 0) << to_string(b.failures[0].second);
  }
}

TEST(TcpConnections, AModuleThatEndsBringsOutWhatWasPosted) {
  TcpSide b;
  std::uint32_t posted = 0;
  {
    TcpSide a;
    btl::Endpoint* route = a.connect(b);
    ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
    b.received.clear();
    for (; posted < 100; ++posted) {
      ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(posted), {}), Post::done);
    }
  }
  ASSERT_TRUE(pump([&] { return b.failures.size() == 1; }, b));
  EXPECT_EQ(b.received.size(), posted);
  EXPECT_EQ(b.failures[0].second.os_errno, 0);
}

TEST(TcpConnections, APeerThatReconnectsAtOnceLosesNothing) {
  TcpSide a;
  TcpSide b;
  for (std::uint32_t round = 0; round < 50; ++round) {
    btl::Endpoint* route = a.connect(b);
    ASSERT_EQ(a.module->send_inline(*route, kTag, bytes_of(round), {}), Post::done);
    // Now and then b hears nothing of it in between: the new greeting may overtake the old goodbye.
    if (round % 3 == 0) {
      ASSERT_TRUE(pump([&] { return b.received.size() > round; }, a, b));
    } else {
      for (std::uint32_t i = 0; i < round % 5; ++i) a.module->progress(64);
    }
    a.module->disconnect(*route);
  }
  ASSERT_TRUE(pump([&] { return b.received.size() == 50; }, a, b)) << b.received.size();
  EXPECT_TRUE(a.failures.empty());
}

TEST(TcpConnections, ADeadEndpointStaysUntilDisconnectWhileThePeerComesBackOnANewOne) {
  TcpSide a;
  TcpSide b;
  for (std::size_t round = 1; round <= 3; ++round) {
    btl::Endpoint* route = a.connect(b);
    ASSERT_EQ(a.module->send_inline(*route, kTag, {}, {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.received.size() == round; }, a, b));
    a.module->disconnect(*route);
    ASSERT_TRUE(pump([&] { return b.failures.size() == round; }, a, b));
  }
  ASSERT_EQ(b.accepted.size(), 3U);
  for (btl::Endpoint* endpoint : b.accepted) {
    EXPECT_TRUE(endpoint->dead());
    EXPECT_EQ(endpoint->peer(), a.id);
    b.module->disconnect(*endpoint);
  }
}

TEST(TcpConnections, FurtherAttemptsOfAPeerThatComputesDoNotEndItsConnection) {
  btl::tcp::Config config = loopback();
  config.handshake_timeout = milliseconds{100};
  TcpSide side{config};
  const PeerId peer = PeerId::random();
  std::vector<std::unique_ptr<RawPeer>> attempts;
  for (int i = 0; i < 3; ++i) {
    attempts.push_back(std::make_unique<RawPeer>(side.port()));
    attempts.back()->greet(side, peer);
  }
  progress_for(milliseconds{300}, side);
  EXPECT_TRUE(side.failures.empty());
  EXPECT_EQ(side.accepted.size(), 1U);
  for (const auto& attempt : attempts) EXPECT_FALSE(attempt->closed()) << "the others wait for the end of the first";
}

TEST(TcpConnections, ANewConnectionWaitsUntilASlowReaderHasReadTheOldOne) {
  btl::tcp::Config config = loopback();
  config.handshake_timeout = milliseconds{50};
  TcpSide reader{config};
  TcpSide sender;
  btl::Endpoint* old_one = sender.connect(reader);
  constexpr std::uint32_t kMessages = 300;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(sender.module->send_inline(*old_one, kTag, bytes_of(i), {}), Post::done);
  }
  sender.module->disconnect(*old_one);
  btl::Endpoint* new_one = sender.connect(reader);
  ASSERT_EQ(sender.module->send_inline(*new_one, kTag, bytes_of(kMessages), {}), Post::done);
  ASSERT_TRUE(pump(
      [&] {
        reader.module->progress(1);
        progress_for(milliseconds{1}, sender);
        return reader.received.size() == kMessages + 1;
      },
      sender))
      << reader.received.size();
  for (std::uint32_t i = 0; i <= kMessages; ++i) {
    EXPECT_EQ(std::memcmp(reader.received[i].data(), &i, sizeof i), 0);
  }
  EXPECT_TRUE(sender.failures.empty());
}

TEST(TcpConnections, ManyPeersAtOnce) {
  TcpSide hub;
  std::vector<std::unique_ptr<TcpSide>> spokes;
  for (std::uint32_t i = 0; i < 60; ++i) {
    spokes.push_back(std::make_unique<TcpSide>());
    btl::Endpoint* route = spokes.back()->connect(hub);
    ASSERT_EQ(spokes.back()->module->send_inline(*route, kTag, bytes_of(i), {}), Post::done);
  }
  ASSERT_TRUE(pump(
      [&] {
        for (auto& spoke : spokes) spoke->module->progress(64);
        return hub.received.size() == 60;
      },
      hub));
  EXPECT_EQ(hub.accepted.size(), 60U);
  for (btl::Endpoint* endpoint : hub.accepted) {
    ASSERT_EQ(hub.module->send_inline(*endpoint, kTag, {}, {}), Post::done);
  }
  for (auto& spoke : spokes) {
    ASSERT_TRUE(pump([&] { return spoke->received.size() == 1; }, hub, *spoke));
  }
}

TEST(TcpConnections, ListensWhereItIsTold) {
  TcpSide any;  // loopback only: one address, one bound socket
  EXPECT_EQ(btl::tcp::decode(any.module->address())->sockets.size(), 1U);
  btl::tcp::Config config = loopback();
  config.port_min = any.port();
  btl::HandlerTable handlers;
  auto registrations = *btl::RegistrationTable::create(4);
  TcpSide observer;
  const btl::ModuleParameters parameters{PeerId::random(), handlers, registrations, observer};
  const auto taken = btl::tcp::Module::open(parameters, config);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::limit_reached);
  config.port_max = std::min(65'535U, config.port_min + 50);
  EXPECT_TRUE(btl::tcp::Module::open(parameters, config));
  config = loopback();
  config.if_include = "no_such_interface";
  EXPECT_EQ(btl::tcp::Module::open(parameters, config).error().code, Errc::unreachable);
  config.if_include = "10.0.0.0/99";
  EXPECT_EQ(btl::tcp::Module::open(parameters, config).error().code, Errc::invalid_argument);
}

TEST(TcpConnections, ListensAgainAtAPortWithConnectionsInTimeWait) {
  btl::tcp::Config config = loopback();
  config.port_min = TcpSide{}.port();
  {
    TcpSide first{config};
    ASSERT_NE(first.module, nullptr);
    RawPeer peer{first.port()};
    peer.greet(first);
    ASSERT_TRUE(pump([&] { return first.accepted.size() == 1; }, first));
    first.module.reset();  // closes first, so the connection waits at this side
    ASSERT_TRUE(peer.closed());
  }
  TcpSide second{config};
  ASSERT_NE(second.module, nullptr);
  EXPECT_EQ(second.port(), config.port_min);
}

TEST(TcpConnections, AConnectionThatWaitsIsUsedByAConnectToItsPeer) {
  TcpSide low{loopback(), PeerId{1, 1}};
  TcpSide high{loopback(), PeerId{2, 2}};
  for (TcpSide* const one : {&low, &high}) {
    TcpSide& reader = *one;
    TcpSide& sender = one == &low ? high : low;
    reader.received.clear();
    sender.received.clear();
    reader.failures.clear();
    sender.failures.clear();
    btl::Endpoint* const old_one = sender.connect(reader);
    constexpr std::uint32_t kMessages = 100;  // the reader has a turn for each, so the new Hello waits
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_EQ(sender.module->send_inline(*old_one, kTag, bytes_of(i), {}), Post::done);
    }
    sender.module->disconnect(*old_one);
    btl::Endpoint* const new_one = sender.connect(reader);
    ASSERT_EQ(sender.module->send_inline(*new_one, kTag, bytes_of(kMessages), {}), Post::done);
    btl::Endpoint* back = nullptr;
    reader.after_failed = [&] {
      back = reader.connect(sender);
      EXPECT_EQ(reader.module->send_inline(*back, kTag, bytes_of(1), {}), Post::done);
    };
    ASSERT_TRUE(pump(
        [&] {
          reader.module->progress(1);
          return reader.received.size() == kMessages + 1 && sender.received.size() == 1;
        },
        sender))
        << reader.received.size() << " and " << sender.received.size();
    EXPECT_EQ(reader.failures.size(), 1U);
    EXPECT_TRUE(sender.failures.empty());
    reader.after_failed = nullptr;
    sender.module->disconnect(*new_one);
    ASSERT_TRUE(pump([&] { return reader.failures.size() == 2; }, reader, sender));
    reader.module->disconnect(*back);
  }
}

TEST(TcpConnections, ListensAsBeforeWhereANewAddressFails) {
  const int result = in_child([] {
    TcpSide side{btl::tcp::Config{}};
    const std::uint16_t before = side.port();
    refuse_system_call(SYS_epoll_ctl, ENOSPC);
    sockaddr_in loopback_only{};
    loopback_only.sin_family = AF_INET;
    loopback_only.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (side.module->listen_only_at(reinterpret_cast<const sockaddr&>(loopback_only))) return 1;
    if (side.port() != before) return 2;
    const RawPeer raw_peer{before};
    return ::testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace opal::test
