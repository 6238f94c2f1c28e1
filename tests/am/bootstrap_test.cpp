// SPDX-License-Identifier: Apache-2.0
// listen() and connect_to(): peers are found; a peer that sends garbage or nothing does no harm.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "opal/am/bootstrap/bootstrap.hpp"
#include "opal/am/bootstrap/secret_choice.hpp"
#include "opal/am/bootstrap/waiter.hpp"
#include "opal/am/bootstrap/wire.hpp"
#include "opal/core/system/fd.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::test {
namespace {

const std::string& any_transport() {
  static const std::string name = joining_transports().front();
  return name;
}

/// Connects a raw socket to "127.0.0.1:port".
void visit(const std::string& where, const Fd& socket) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}
Fd visit(const std::string& where) {
  Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  visit(where, socket);
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
    Side client{any_transport()};
    auto peer = find_server(client);
    ASSERT_TRUE(peer);
    const std::uint64_t word = 1;
    const std::size_t before = server.messages;
    ASSERT_EQ((*peer)->send_or_queue(kTag, bytes_of(word), {}), Post::done);
    EXPECT_TRUE(pump([&] { return server.messages == before + 1; }, *server.context, *client.context));
  }
  Side server{any_transport()};
  std::string where;
};

TEST_F(Bootstrap, BothSidesHaveAnEndpointAfterwards) {
  Side client{any_transport()};
  auto peer = find_server(client);
  ASSERT_TRUE(peer);
  EXPECT_EQ((*peer)->peer(), server.context->id());
  ASSERT_EQ(server.connected.size(), 1u);
  EXPECT_EQ(server.connected[0]->peer(), client.context->id());
  const std::uint64_t word = 1;
  ASSERT_EQ(server.connected[0]->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  EXPECT_TRUE(pump([&] { return client.messages == 1; }, *server.context, *client.context));
}

TEST_F(Bootstrap, ManyConnectorsAtOnceAreAllServed) {
  constexpr std::size_t kClients = 20;
  std::vector<std::unique_ptr<Side>> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Side>(any_transport()));
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
    std::vector<char> garbage(sizeof(am::bootstrap_wire::Head) + random() % 200);
    for (char& c : garbage) c = static_cast<char>(random());
    ASSERT_EQ(::send(visitor.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(garbage.size()));
    EXPECT_TRUE(pump([&] { return hung_up(visitor); }, *server.context));
  }
  EXPECT_TRUE(server.connected.empty());
  expect_service();
}

TEST_F(Bootstrap, AProofWithAWrongAddressBehindIsHungUpOn) {
  namespace wire = am::bootstrap_wire;
  const Secret ours = am::choose_secret("")->secret;
  for (const std::uint64_t size : {0ULL, 1ULL, 100ULL, 64ULL * 1024, 64ULL * 1024 + 1, ~0ULL}) {
    for (const bool right_blob : {false, true}) {
      const Fd visitor = visit(where);
      wire::Challenge challenge{};
      ASSERT_TRUE(pump(
          [&] {
            return ::recv(visitor.get(), &challenge, sizeof challenge, MSG_DONTWAIT) ==
                   static_cast<ssize_t>(sizeof challenge);
          },
          *server.context));
      const std::vector<std::byte> blob(std::min<std::size_t>(size, 64 * 1024), std::byte{'x'});
      wire::Head head = wire::make_head(ours, wire::kConnector, challenge, fresh_nonce(), blob);
      if (!right_blob) head.address_proof[0] ^= std::byte{1};
      head.size = size;
      head.proof = wire::proof_of(ours, wire::kConnector, challenge, head);
      ASSERT_GT(::send(visitor.get(), &head, sizeof head, MSG_NOSIGNAL), 0);
      (void)::send(visitor.get(), blob.data(), blob.size(), MSG_NOSIGNAL);
      EXPECT_TRUE(pump([&] { return hung_up(visitor); }, *server.context)) << size;
    }
  }
  EXPECT_TRUE(server.connected.empty());
  expect_service();
}

/// A listener and a visitor with these secrets; the visitor's result.
Error meet(const std::optional<Secret>& listener, const std::optional<Secret>& visitor) {
  Side server{any_transport(), am::ThreadLevel::single, listener};
  Side client{any_transport(), am::ThreadLevel::single, visitor};
  const auto where = server.context->listen("127.0.0.1:0");
  EXPECT_TRUE(where);
  auto found =
      std::async(std::launch::async, [&] { return client.context->connect_to(*where, std::chrono::seconds{20}); });
  EXPECT_TRUE(
      pump([&] { return found.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }, *server.context));
  const auto peer = found.get();
  EXPECT_EQ(server.connected.size(), peer ? 1U : 0U);
  return peer ? Error{} : peer.error();
}

TEST(Secrets, OnlyTheSameSecretMeets) {
  const Secret ours = *Secret::from_text("0123456789abcdef");
  const Secret theirs = *Secret::from_text("0123456789abcdeg");
  EXPECT_EQ(meet(ours, ours).code, Errc{});
  EXPECT_EQ(meet({}, {}).code, Errc{});
  EXPECT_EQ(meet(ours, theirs).code, Errc::protocol);
  EXPECT_EQ(meet(ours, {}).code, Errc::protocol);
  EXPECT_EQ(meet({}, ours).code, Errc::protocol);
}

TEST(Secrets, AListenerThatCannotProveItIsNotBelieved) {
  namespace wire = am::bootstrap_wire;
  const Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::jthread impostor{[&] {
    const Fd visitor{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    const wire::Challenge challenge{wire::kMagic, wire::kVersion, 0, fresh_nonce()};
    (void)::send(visitor.get(), &challenge, sizeof challenge, MSG_NOSIGNAL);
    std::array<std::byte, 70'000> said;
    (void)::recv(visitor.get(), said.data(), said.size(), 0);
    (void)::send(visitor.get(), said.data(), sizeof(wire::Head), MSG_NOSIGNAL);  // the visitor's own words
    (void)::recv(visitor.get(), said.data(), said.size(), 0);
  }};
  Side side{any_transport(), am::ThreadLevel::single, Secret::from_text("0123456789abcdef").value()};
  const auto peer =
      side.context->connect_to("127.0.0.1:" + std::to_string(ntohs(address.sin_port)), std::chrono::seconds{20});
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Errc::permission);
}

TEST(Secrets, AFileThatOthersMayReadIsRefused) {
  const std::string path = testing::TempDir() + "opal-secret-" + std::to_string(::getpid());
  const auto open_with = [&](mode_t mode, const std::string& text) {
    std::ofstream{path} << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    config::Store store;
    store.set("am_transports", "self");
    store.set("am_secret_file", path);
    const auto context = am::Context::open(store);
    std::filesystem::remove(path);
    return context ? Errc{} : context.error().code;
  };
  EXPECT_EQ(open_with(0600, "0123456789abcdef"), Errc{});
  EXPECT_EQ(open_with(0400, "0123456789abcdef"), Errc{});
  EXPECT_EQ(open_with(0640, "0123456789abcdef"), Errc::permission);
  EXPECT_EQ(open_with(0604, "0123456789abcdef"), Errc::permission);
  EXPECT_EQ(open_with(0600, "0123456789abcde"), Errc::invalid_argument) << "too short";
  EXPECT_EQ(open_with(0600, std::string(5000, 'x')), Errc::invalid_argument) << "too long";
  config::Store store;
  store.set("am_secret_file", path);
  EXPECT_EQ(am::Context::open(store).error().os_errno, ENOENT);
}

TEST_F(Bootstrap, ConnectorsThatLeaveEarlyDoNoHarm) {
  for (int i = 0; i < 100; ++i) {
    const Fd visitor = visit(where);
    if (i % 2 == 0) (void)::send(visitor.get(), "half", 4, MSG_NOSIGNAL);
  }
  expect_service();
}

TEST_F(Bootstrap, ConnectorsThatSendNothingLoseTheirPlace) {
  std::vector<Fd> silent;
  for (int i = 0; i < 70; ++i) silent.push_back(visit(where));  // more than there are places
  expect_service();
}

/// Nothing keeps the server awake.
bool may_sleep(am::Context& context) {
  pollfd fd{context.fd(), POLLIN, 0};
  return context.arm() && ::poll(&fd, 1, 0) == 0;
}

TEST_F(Bootstrap, ConnectorsThatSendNothingGiveWayToLaterOnesAndWakeNoThread) {
  std::vector<Fd> silent;
  for (int i = 0; i < 70; ++i) silent.push_back(visit(where));  // more than there are places
  EXPECT_TRUE(pump([&] { return may_sleep(*server.context); }, *server.context));
  expect_service();
  // Not because their time was over: then all had lost their places.
  EXPECT_LE(std::count_if(silent.begin(), silent.end(), hung_up), 20);
  EXPECT_FALSE(hung_up(silent.back()));
}

TEST_F(Bootstrap, WithoutDescriptorsToAcceptWithTheServerGoesOnLater) {
  const Fd visitor = visit(where);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto first_free = static_cast<rlim_t>(Fd{::dup(visitor.get())}.get());
  const rlimit none{first_free, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  server.context->progress();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  am::bootstrap_wire::Challenge challenge{};
  const auto greeted = [&] {
    return ::recv(visitor.get(), &challenge, sizeof challenge, MSG_DONTWAIT | MSG_PEEK) == sizeof challenge;
  };
  EXPECT_TRUE(server.context->wait_until(greeted, std::chrono::seconds{20}));
}

TEST_F(Bootstrap, AForkedChildThatEndsItsCopyLeavesTheListenerAlone) {
  const Fd visitor = visit(where);
  server.context->progress();
  EXPECT_EQ(in_child([&] {
              server.context.reset();
              return 0;
            }),
            0);
  EXPECT_FALSE(hung_up(visitor));
  EXPECT_TRUE(pump([&] { return may_sleep(*server.context); }, *server.context));
  const Fd late = visit(where);
  pollfd fd{server.context->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 20'000), 1) << "the parent's epoll instance has forgotten the listener";
  expect_service();
}

/// The addresses of this process's listening sockets, as the kernel lists them.
std::vector<std::string> listening_addresses() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code ignored;
    own.insert(std::filesystem::read_symlink(entry.path(), ignored).string());
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines{table};
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words{line};
      std::array<std::string, 10> word;  // number, local, remote, state, ..., inode
      for (std::string& each : word) words >> each;
      if (word[3] == "0A" && own.contains("socket:[" + word[9] + "]")) found.push_back(word[1]);
    }
  }
  return found;
}

TEST(Listening, AtLoopbackNoSocketOfTheContextListensElsewhere) {
  for (const char* place : {"127.0.0.1:0", "localhost:0"}) {
    Side server{"tcp"};
    ASSERT_FALSE(listening_addresses().empty());
    const auto where = server.context->listen(place);
    ASSERT_TRUE(where);
    for (const std::string& address : listening_addresses()) {
      const bool loopback = address.starts_with("0100007F:") ||
                            address.starts_with("00000000000000000000000001000000:") ||
                            address.starts_with("0000000000000000FFFF00000100007F:");
      EXPECT_TRUE(loopback) << address;
    }
    Side client{"tcp"};
    auto found =
        std::async(std::launch::async, [&] { return client.context->connect_to(*where, std::chrono::seconds{20}); });
    EXPECT_TRUE(
        pump([&] { return found.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }, *server.context));
    const auto peer = found.get();
    ASSERT_TRUE(peer);
    ASSERT_EQ((*peer)->send_or_queue(kTag, {}, {}), Post::done);
    EXPECT_TRUE(pump([&] { return server.messages == 1; }, *server.context, *client.context));
  }
}

TEST(Listening, AnAddressThatWasGivenAwayStaysGood) {
  Side server{"tcp"};
  const std::vector<std::byte> address{server.context->address().begin(), server.context->address().end()};
  ASSERT_TRUE(server.context->listen("127.0.0.1:0"));
  EXPECT_TRUE(std::equal(address.begin(), address.end(), server.context->address().begin()));
  Side client{"tcp"};
  am::Endpoint& peer = **client.context->connect(address);
  ASSERT_EQ(peer.send_or_queue(kTag, {}, {}), Post::done);
  EXPECT_TRUE(pump([&] { return server.messages == 1; }, *server.context, *client.context));
}

TEST(Listening, IsAtEveryAddressOfTheName) {
  Side server{"self"};
  const auto where = server.context->listen("localhost:0");
  ASSERT_TRUE(where);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  ASSERT_EQ(::getaddrinfo("localhost", where->substr(where->rfind(':') + 1).c_str(), &hints, &list), 0);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const Fd socket{::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_storage any{};  // an address that this host lacks cannot be listened at
    std::memcpy(&any, entry->ai_addr, entry->ai_addrlen);
    (entry->ai_family == AF_INET ? reinterpret_cast<sockaddr_in&>(any).sin_port
                                 : reinterpret_cast<sockaddr_in6&>(any).sin6_port) = 0;
    const Fd probe{::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&any), entry->ai_addrlen) != 0) continue;
    EXPECT_EQ(::connect(socket.get(), entry->ai_addr, entry->ai_addrlen), 0) << entry->ai_family;
  }
  ::freeaddrinfo(list);
}

TEST(Listening, ProgressDoesNotWaitForAPeerThatDoesNotReadItsAnswer) {
  namespace wire = am::bootstrap_wire;
  const Secret secret = *Secret::from_text(Secret::random_text());
  const auto waiter = am::Waiter::create();
  ASSERT_TRUE(waiter);
  const auto listening = am::Bootstrap::listen("127.0.0.1:0", secret, **waiter);
  ASSERT_TRUE(listening);
  // Short segments and a small receive buffer: the default send buffer of the listener takes a part of the answer.
  Fd visitor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int segment = 536;
  const int buffer = 1;
  ASSERT_EQ(::setsockopt(visitor.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
  ASSERT_EQ(::setsockopt(visitor.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer), 0);
  visit((*listening)->where(), visitor);
  const std::vector<std::byte> own(64 * 1024, std::byte{'x'});
  std::size_t arrived = 0;
  const auto progress = [&] { arrived += (*listening)->progress(own, [](ByteSpan) { return true; }); };
  wire::Challenge challenge{};
  while (::recv(visitor.get(), &challenge, sizeof challenge, MSG_DONTWAIT) != sizeof challenge) progress();
  const std::byte blob{};
  const wire::Head head = wire::make_head(secret, wire::kConnector, challenge, fresh_nonce(), {&blob, 1});
  ASSERT_EQ(::send(visitor.get(), &head, sizeof head, MSG_NOSIGNAL), ssize_t{sizeof head});
  ASSERT_EQ(::send(visitor.get(), &blob, 1, MSG_NOSIGNAL), 1);
  while (arrived == 0) progress();
  std::vector<std::byte> answer(sizeof head + own.size());
  EXPECT_EQ(::recv(visitor.get(), answer.data(), answer.size(), MSG_WAITALL), static_cast<ssize_t>(answer.size()));
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

TEST(ConnectTo, APortThatDoesNotExistIsNotTakenModulo65536) {
  Side side{"self"};
  for (const char* place : {"127.0.0.1:65536", "127.0.0.1:70000", "127.0.0.1:99999", "127.0.0.1:4294967296",
                            "127.0.0.1:99999999999999999999", "127.0.0.1:"}) {
    const auto peer = side.context->connect_to(place, std::chrono::milliseconds{100});
    ASSERT_FALSE(peer) << place;
    EXPECT_EQ(peer.error().code, Errc::invalid_argument) << place;
    const auto listening = side.context->listen(place);
    ASSERT_FALSE(listening) << place;
    EXPECT_EQ(listening.error().code, Errc::invalid_argument) << place;
  }
}

TEST(ConnectTo, AnAddressThatStaysSilentDoesNotUseUpTheTimeOfTheNext) {
  const auto listening = [](int backlog, sockaddr_in& address) {
    Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    EXPECT_EQ(::listen(socket.get(), backlog), 0);
    return socket;
  };
  std::array<sockaddr_in, 2> addresses;
  const Fd silent = listening(0, addresses[0]);
  const Fd answering = listening(10, addresses[1]);
  std::vector<Fd> crowd;  // the kernel drops what comes when the queue is full
  for (bool full = false; !full && crowd.size() < 100;) {
    crowd.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(crowd.back().get(), reinterpret_cast<sockaddr*>(&addresses[0]), sizeof(sockaddr_in));
    pollfd fd{crowd.back().get(), POLLOUT, 0};
    full = ::poll(&fd, 1, 100) == 0;
  }
  std::array<addrinfo, 2> list{};
  for (std::size_t i = 0; i < 2; ++i) {
    list[i].ai_family = AF_INET;
    list[i].ai_addr = reinterpret_cast<sockaddr*>(&addresses[i]);
    list[i].ai_addrlen = sizeof(sockaddr_in);
  }
  list[0].ai_next = &list[1];
  const auto connected = am::connect_to_any(list.data(), Deadline::after(std::chrono::seconds{20}));
  ASSERT_TRUE(connected) << to_string(connected.error());
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  ASSERT_EQ(::getpeername(connected->get(), reinterpret_cast<sockaddr*>(&peer), &size), 0);
  EXPECT_EQ(peer.sin_port, addresses[1].sin_port);
  list[0].ai_next = nullptr;
  EXPECT_EQ(am::connect_to_any(list.data(), Deadline::after(std::chrono::milliseconds{50})).error().code,
            Errc::timed_out);
}

TEST(ConnectTo, NobodyThereIsUnreachableWhenTheTimeIsOver) {
  // A port that was free a moment ago: bound, without a listener.
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
