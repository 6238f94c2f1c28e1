// SPDX-License-Identifier: Apache-2.0
// Processes that end: what they said before is heard, death is told from goodbye, nothing is left.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/sides.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

/// Connects to the side that `blob` names, then sends `count` messages of mixed sizes.
btl::Endpoint* talk(Side& own, ByteSpan blob, std::uint32_t count) {
  btl::Endpoint* route = own.connect(blob);
  for (std::uint32_t i = 0; i < count; ++i) {
    while (own.module().send_inline(*route, kTag, bytes_of(i), pattern(i % 10 == 0 ? 1500 : 20, i)) != Post::done) {
      own.module().progress(1);
    }
  }
  return route;
}

TEST(SmDeath, WhatADeadPeerHadSentIsDeliveredFirst) {
  constexpr std::uint32_t kCount = 60;  // as many as fit without the receiver's help
  Child child{[](Channel& parent) {
    Side own{"sm"};
    talk(own, parent.receive(), kCount);
    parent.send("sent");
    ::kill(::getpid(), SIGKILL);
    return 0;
  }};
  Side side{"sm"};
  child.channel().send(side.blob());
  ASSERT_TRUE(child.channel().expect("sent"));
  ASSERT_TRUE(child.wait());
  ASSERT_TRUE(pump([&] { return !side.failures.empty(); }, side));
  ASSERT_EQ(side.received.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(std::memcmp(side.received[i].data(), &i, sizeof i), 0);
    ASSERT_EQ(side.received[i].size(), sizeof i + (i % 10 == 0 ? 1500 : 20));
  }
  EXPECT_EQ(side.failures[0].why.code, Errc::peer_gone);
  EXPECT_NE(std::string_view{side.failures[0].why.where}.find("process has ended"), std::string_view::npos);
}

TEST(SmDeath, AGoodbyeIsToldFromADeathAndLosesNothing) {
  constexpr std::uint32_t kCount = 60;
  Child child{[](Channel& parent) {
    Side own{"sm"};
    own.module().disconnect(*talk(own, parent.receive(), kCount));
    parent.send("sent");
    return parent.expect("stop") ? 0 : 1;
  }};
  Side side{"sm"};
  child.channel().send(side.blob());
  ASSERT_TRUE(child.channel().expect("sent"));
  ASSERT_TRUE(pump([&] { return !side.failures.empty(); }, side));
  EXPECT_EQ(side.received.size(), kCount);
  EXPECT_EQ(side.failures[0].why.code, Errc::peer_gone);
  EXPECT_NE(std::string_view{side.failures[0].why.where}.find("disconnected"), std::string_view::npos);
  child.channel().send("stop");
  EXPECT_EQ(child.wait(), 0);
}

TEST(SmDeath, ASleepingProcessIsWokenByAPeersDeath) {
  Child child{[](Channel& parent) {
    Side own{"sm"};
    talk(own, parent.receive(), 1);
    while (true) ::pause();
    return 0;
  }};
  Side side{"sm"};
  child.channel().send(side.blob());
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
  ASSERT_TRUE(pump([&] { return side.module().arm(); }, side));
  pollfd fd{side.module().wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0) << "nothing happens yet";
  child.kill();
  EXPECT_EQ(::poll(&fd, 1, 20'000), 1);
  EXPECT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
}

TEST(SmDeath, AnIndexIsUsedAgainAndOldMessagesNeverReachTheNewOwner) {
  std::vector<std::unique_ptr<Child>> children;
  for (int round = 0; round < 30; ++round) {
    children.push_back(std::make_unique<Child>([](Channel& parent) {
      const auto blob = parent.receive(std::chrono::seconds{60});
      Side own{"sm"};
      talk(own, blob, 40);
      parent.send("sent");
      ::pause();
      return 0;
    }));
  }
  Side side{"sm"};
  for (const auto& child : children) {
    child->channel().send(side.blob());
    ASSERT_TRUE(child->channel().expect("sent"));
    while (side.received.empty()) side.module().progress(1);
    ASSERT_LT(side.received.size(), 40U);
    side.module().disconnect(*side.accepted.back());  // with messages still in the FIFO
    side.received.clear();
  }
  Side friendly{"sm"};
  ASSERT_EQ(test::send(*friendly.connect(side), pattern(8, 1), {}, friendly, side), Post::done);
  ASSERT_TRUE(pump([&] { return !side.received.empty(); }, side));
  EXPECT_EQ(side.received[0], pattern(8, 1));
}

TEST(SmDeath, AStoppedPeerCannotHoldUpOthers) {
  auto server = [](Channel& parent) {
    Side own{"sm"};
    parent.send(own.blob());
    while (!parent.ready()) own.module().progress(64);
    return 0;
  };
  Child stopped{server};
  Child running{server};
  const auto stopped_blob = stopped.channel().receive();
  const auto running_blob = running.channel().receive();
  ::kill(stopped.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(stopped.pid(), &status, WUNTRACED), stopped.pid());
  Config config;
  config.connect_timeout = std::chrono::milliseconds{50};
  Side side{with(config)};
  PeerId peer;
  ASSERT_TRUE(read_object(stopped_blob, peer));
  const auto refused = side.module().connect(peer, ByteSpan{stopped_blob}.subspan(sizeof peer));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unreachable);
  btl::Endpoint* route = side.connect(running_blob);
  EXPECT_EQ(test::send(*route, pattern(8, 1), {}, side), Post::done);
}

TEST(SmDeath, AForkedChildOfAPeerDoesNotHideItsDeath) {
  Child child{[](Channel& parent) {
    Side own{"sm"};
    talk(own, parent.receive(), 1);
    if (::fork() ==
        0) {  // inherits every descriptor, lives on after its parent, until the test's end of the channel goes
      (void)parent.receive(std::chrono::seconds{300});
      ::_exit(0);
    }
    parent.send("forked");
    while (true) ::pause();
    return 0;
  }};
  Side side{"sm"};
  child.channel().send(side.blob());
  ASSERT_TRUE(pump([&] { return side.received.size() == 1; }, side));
  ASSERT_TRUE(child.channel().expect("forked"));
  child.kill();
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side)) << "the grandchild still holds the socket";
  EXPECT_NE(std::string_view{side.failures[0].why.where}.find("process has ended"), std::string_view::npos);
  child.channel().send("stop");
}

TEST(SmDeath, AForkedChildThatThrowsItsCopyAwayTakesNothingFromItsParent) {
  Side other{"sm"};
  auto own = std::make_unique<Side>("sm");
  btl::Endpoint* const there = own->connect(other);
  ASSERT_EQ(test::send(*there, pattern(8, 1), {}, *own, other), Post::done);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto refused = own->module().connect(other.id(), ByteSpan{other.blob()}.subspan(sizeof(PeerId)));
    const bool right = refused && *refused == there;  // known; a new connection would be refused
    own.reset();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(test::send(*there, pattern(8, 2), {}, *own, other), Post::done);
  ASSERT_TRUE(pump([&] { return other.received.size() == 2; }, *own, other));
  Side late{"sm"};
  ASSERT_EQ(test::send(*late.connect(*own), pattern(8, 3), {}, late, *own), Post::done);
  ASSERT_TRUE(pump([&] { return own->received.size() == 1; }, *own));
  EXPECT_TRUE(other.failures.empty());
  EXPECT_TRUE(own->failures.empty());
}

/// A peer that leaves and comes back while nobody here looks has its lives told one after the other.
TEST(SmDeath, APeerThatComesBackQuicklyIsToldToHaveGoneFirst) {
  for (const std::uint32_t messages : {0, 1, 7}) {
    Side side{"sm"};
    std::uint32_t heard = 0;
    side.handler = [&](btl::Delivery& delivery) {
      const std::uint32_t life = heard++ / messages;
      ASSERT_EQ(side.accepted.size(), life + 1) << "announced before its first message";
      ASSERT_EQ(side.failures.size(), life) << "and after the end of the life before";
      ASSERT_EQ(&delivery.from, side.accepted[life]);
    };
    Side guest{"sm"};
    for (int life = 0; life < 3; ++life) {
      btl::Endpoint* const route = guest.connect(side);
      for (std::uint32_t i = 0; i < messages; ++i) {
        ASSERT_EQ(test::send(*route, bytes_of(i), {}, guest), Post::done);
      }
      guest.module().disconnect(*route);
    }
    ASSERT_TRUE(pump([&] { return side.failures.size() == 3; }, side));
    EXPECT_EQ(heard, 3 * messages);
    ASSERT_EQ(side.accepted.size(), 3U);
    for (std::size_t life = 0; life < 3; ++life) EXPECT_EQ(side.failures[life].endpoint, side.accepted[life]);
    btl::Endpoint* const route = guest.connect(side);
    ASSERT_TRUE(pump([&] { return side.accepted.size() == 4; }, side));
    EXPECT_EQ(side.failures.size(), 3U);
    EXPECT_FALSE(route->dead());
  }
}

}  // namespace
}  // namespace opal::btl::sm
