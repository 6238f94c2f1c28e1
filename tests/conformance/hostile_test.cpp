// SPDX-License-Identifier: Apache-2.0
// Peers that do not belong to the job, or send garbage, over every transport: they harm no other peer.
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

class Hostile : public ::testing::TestWithParam<std::string> {
 protected:
  /// True when a new peer with this secret exchanges messages with `server`.
  static void expect_served(Side& server, const Secret& secret) {
    Side peer{GetParam(), {}, secret};
    const std::size_t count = server.received.size() + 1;
    btl::Endpoint* const route = peer.connect(server);
    ASSERT_EQ(send(*route, pattern(50, 1), {}, peer, server), Post::done);
    ASSERT_TRUE(pump([&] { return server.received.size() == count; }, peer, server));
    EXPECT_EQ(server.received.back(), pattern(50, 1));
    ASSERT_EQ(send(*server.accepted.back(), pattern(60, 2), {}, peer, server), Post::done);
    ASSERT_TRUE(pump([&] { return peer.received.size() == 1; }, peer, server));
  }
};
OPAL_CONFORMANCE_SUITE(Hostile, joining_transports);

/// Transports that take another proof than the secret: sm and smcuda the kernel's, that the peer is of the same user
/// (SO_PEERCRED); sim, that it is in the same process.
std::vector<std::string> transports_with_a_secret() {
  std::vector<std::string> names = joining_transports();
  std::erase_if(names, [](const std::string& name) { return name == "sm" || name == "smcuda" || name == "sim"; });
  return names;
}
class HostileOfAnotherJob : public Hostile {};
OPAL_CONFORMANCE_SUITE(HostileOfAnotherJob, transports_with_a_secret);

TEST_P(HostileOfAnotherJob, APeerWithAnotherSecretIsRefusedAndDisturbsNoOther) {
  const Secret secret = *Secret::from_text("the secret of this job");
  Side server{GetParam(), {}, secret};
  // A transport that does not answer such a peer leaves it to its time for connecting.
  Side outsider{[](const btl::ModuleParameters& given) -> Result<std::unique_ptr<btl::Module>> {
                  btl::ModuleParameters parameters = given;
                  parameters.connect_timeout = std::chrono::milliseconds{2000};
                  const auto* const component = all_transports().find(GetParam());
                  OPAL_TRY_ASSIGN(auto modules, component->open(parameters, config::Store::from_environment()));
                  return std::move(modules.front());
                },
                false, *Secret::from_text("the secret of another job")};
  const auto route = outsider.module().connect(server.id(), server.module().address());
  if (route) {  // not refused at once
    ASSERT_TRUE(pump(
        [&] {
          (void)outsider.module().send_inline(**route, kTag, pattern(8, 1), {});
          return !outsider.failures.empty();
        },
        outsider, server));
    EXPECT_EQ(outsider.failures[0].endpoint, *route);
    EXPECT_TRUE((*route)->dead());
  }
  EXPECT_TRUE(server.accepted.empty());
  EXPECT_TRUE(server.received.empty());
  expect_served(server, secret);
  EXPECT_TRUE(server.failures.size() <= 1) << "of the peer that was served and ended";
}

TEST_P(Hostile, GarbledMessagesWithTheTransportsOwnTagsDisturbNoOtherPeer) {
  Side server{GetParam()};
  std::vector<std::byte> memory = pattern(4096, 3);
  const auto before = memory;
  const auto handle = server.module().register_memory(memory.data(), memory.size(), Rights::all);
  ASSERT_TRUE(handle);
  std::vector<std::byte> forged(handle->bytes().begin(), handle->bytes().end());
  forged.resize(200, std::byte{0xff});  // a handle that exists, and an absurd range
  std::unique_ptr<Side> attacker;
  btl::Endpoint* route = nullptr;
  for (Tag tag = kBtlTags.first; tag <= kBtlTags.last; ++tag) {
    for (const std::size_t size : {0U, 1U, 8U, 24U, 40U, 64U, 100U, 200U}) {
      for (const auto& bytes : {pattern(size, tag), std::vector<std::byte>(size), forged}) {
        if (route == nullptr || route->dead()) {  // the server has ended this connection
          attacker = std::make_unique<Side>(GetParam());
          route = attacker->connect(server);
        }
        Post post = Post::again;
        ASSERT_TRUE(pump([&] { return (post = attacker->module().send_inline(*route, tag, bytes, {})) != Post::again; },
                         *attacker, server));
      }
    }
    for (int i = 0; i < 20; ++i) {
      attacker->module().progress(64);
      server.module().progress(64);
    }
  }
  EXPECT_EQ(memory, before);
  expect_served(server, {});
}

/// Between processes.
class HostileProcesses : public Hostile {};
OPAL_CONFORMANCE_SUITE(HostileProcesses, crossing_transports);

std::vector<int> open_sockets() {
  std::vector<int> sockets;
  for (int fd = 0; fd < 1024; ++fd) {
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0) sockets.push_back(fd);
  }
  return sockets;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostileProcesses);  // no transport here may reach another process
TEST_P(HostileProcesses, GarbageOnTheSocketsOfAPeerEndsThatPeerAlone) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    Child child{[&](Channel& parent) {
      const auto blob = parent.receive(std::chrono::seconds{120});
      const std::vector<int> before = open_sockets();
      Side own{GetParam()};
      btl::Endpoint* const route = own.connect(blob);
      if (send(*route, pattern(8, 1), {}, own) != Post::done) return 1;
      while (!parent.ready()) own.module().progress(64);
      const auto garbage = pattern(std::size_t{1} << (4 * seed), seed);
      for (const int fd : open_sockets()) {
        if (std::find(before.begin(), before.end(), fd) != before.end()) continue;
        (void)::send(fd, garbage.data(), garbage.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      parent.send("sent");
      for (;;) own.module().progress(64);
    }};
    Side server{GetParam()};
    child.channel().send(server.blob());
    ASSERT_TRUE(pump([&] { return server.received.size() == 1; }, server));
    child.channel().send("go");
    ASSERT_TRUE(pump([&] { return child.channel().ready(); }, server));
    for (int i = 0; i < 100; ++i) server.module().progress(64);
    child.kill();
    ASSERT_TRUE(pump([&] { return server.failures.size() == 1; }, server));
    EXPECT_EQ(server.failures[0].endpoint, server.accepted.at(0));
    EXPECT_EQ(server.received.size(), 1U) << "garbage is no message";
    expect_served(server, {});
  }
}

}  // namespace
}  // namespace opal::test
