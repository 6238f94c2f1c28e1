// SPDX-License-Identifier: Apache-2.0
// listen() and connect_to(): who comes is found, who babbles or says nothing does no harm.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <random>
#include <thread>

#include "opal/core/fd.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

const std::string kTransport = joining_transports().front();

/// A raw connection to "127.0.0.1:port".
Fd visit(const std::string& where) {
  Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

bool hung_up(const Fd& socket) {
  pollfd fd{socket.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) == 1 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

class Bootstrap : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listening = server.context->listen("127.0.0.1:0");
    ASSERT_TRUE(listening);
    where = *listening;
  }
  /// connect_to() in a thread of its own while the server progresses here.
  Result<am::Endpoint*> find_server(Side& client) {
    auto found =
        std::async(std::launch::async, [&] { return client.context->connect_to(where, std::chrono::seconds{20}); });
    EXPECT_TRUE(
        pump([&] { return found.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }, *server.context));
    return found.get();
  }
  /// Whether a client that comes now is served.
  void expect_service() {
    Side client{kTransport};
    auto peer = find_server(client);
    ASSERT_TRUE(peer);
    const std::uint64_t word = 1;
    const std::size_t before = server.messages;
    ASSERT_EQ((*peer)->send_or_queue(kTag, bytes_of(word), {}), Post::done);
    EXPECT_TRUE(pump([&] { return server.messages == before + 1; }, *server.context, *client.context));
  }
  Side server{kTransport};
  std::string where;
};

TEST_F(Bootstrap, BothSidesHaveAnEndpointAfterwards) {
  Side client{kTransport};
  auto peer = find_server(client);
  ASSERT_TRUE(peer);
  EXPECT_EQ((*peer)->peer(), server.context->id());
  ASSERT_EQ(server.connected.size(), 1u);
  EXPECT_EQ(server.connected[0]->peer(), client.context->id());
  const std::uint64_t word = 1;
  ASSERT_EQ(server.connected[0]->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  EXPECT_TRUE(pump([&] { return client.messages == 1; }, *server.context, *client.context));
}

TEST_F(Bootstrap, ManyVisitorsAtOnceAreAllServed) {
  constexpr std::size_t kClients = 20;
  std::vector<std::unique_ptr<Side>> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Side>(kTransport));
  std::atomic<std::size_t> good{0};
  std::atomic<std::size_t> ended{0};
  std::vector<std::jthread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&] {
      if (client->context->connect_to(where, std::chrono::seconds{20})) ++good;
      ++ended;
    });
  }
  EXPECT_TRUE(pump([&] { return ended == kClients; }, *server.context));
  EXPECT_EQ(good, kClients);
  EXPECT_EQ(server.connected.size(), kClients);
}

TEST_F(Bootstrap, GarbageIsHungUpOnAndOthersAreServed) {
  std::mt19937 random{1};
  for (int i = 0; i < 50; ++i) {
    const Fd visitor = visit(where);
    std::vector<char> garbage(8 + random() % 200);
    for (char& c : garbage) c = static_cast<char>(random());
    ASSERT_EQ(::send(visitor.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(garbage.size()));
    EXPECT_TRUE(pump([&] { return hung_up(visitor); }, *server.context));
  }
  EXPECT_TRUE(server.connected.empty());
  expect_service();
}

TEST_F(Bootstrap, ARightHeaderWithGarbageBehindIsHungUpOn) {
  for (const std::uint32_t size : {0U, 1U, 100U, 64U * 1024, 64U * 1024 + 1, 0xffffffffU}) {
    const Fd visitor = visit(where);
    const std::uint32_t header[2] = {0x424c504f, size};
    std::vector<char> message(sizeof header + std::min<std::size_t>(size, 64 * 1024), 'x');
    std::memcpy(message.data(), header, sizeof header);
    ASSERT_GT(::send(visitor.get(), message.data(), message.size(), MSG_NOSIGNAL), 0);
    EXPECT_TRUE(pump([&] { return hung_up(visitor); }, *server.context)) << size;
  }
  expect_service();
}

TEST_F(Bootstrap, VisitorsThatLeaveEarlyDoNoHarm) {
  for (int i = 0; i < 100; ++i) {
    const Fd visitor = visit(where);
    if (i % 2 == 0) (void)::send(visitor.get(), "OPLB", 4, MSG_NOSIGNAL);
  }
  expect_service();
}

TEST_F(Bootstrap, VisitorsThatSayNothingLoseTheirPlace) {
  std::vector<Fd> silent;
  for (int i = 0; i < 70; ++i) silent.push_back(visit(where));  // more than there are places
  expect_service();
}

TEST_F(Bootstrap, AnAddressThatNoTransportReachesIsNotAnswered) {
  Side stranger{"self"};
  const auto peer = find_server(stranger);
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::protocol) << to_string(peer.error());
  EXPECT_TRUE(server.connected.empty());
}

TEST_F(Bootstrap, ListeningTwiceIsAnError) {
  const auto again = server.context->listen("127.0.0.1:0");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::invalid_argument);
}

TEST(ConnectTo, BadPlacesAreErrors) {
  Side side{"self"};
  for (const char* place : {"", "localhost", "127.0.0.1", "no-such-host.invalid:1", "127.0.0.1:no-such-port"}) {
    EXPECT_FALSE(side.context->connect_to(place, std::chrono::milliseconds{100})) << place;
    EXPECT_FALSE(side.context->listen(place)) << place;
  }
}

TEST(ConnectTo, NobodyThereIsUnreachableWhenTheTimeIsOver) {
  // A port that was free a moment ago: bound, and nobody listens.
  const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Side side{"self"};
  const auto peer =
      side.context->connect_to("127.0.0.1:" + std::to_string(ntohs(address.sin_port)), std::chrono::milliseconds{50});
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::unreachable);
}

TEST(ConnectTo, AListenerThatNeverAnswersIsATimeOut) {
  const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Side side{"self"};
  const auto peer =
      side.context->connect_to("127.0.0.1:" + std::to_string(ntohs(address.sin_port)), std::chrono::milliseconds{50});
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::timed_out);
}

}  // namespace
}  // namespace opal::test
