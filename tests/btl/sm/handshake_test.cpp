// SPDX-License-Identifier: Apache-2.0
// At the door: unauthenticated connections that bring the wrong things, say nothing, or come from elsewhere are
// refused; the module lives.
#include "opal/btl/sm/connections/handshake.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/raw_peer.hpp"
#include "tests/btl/sm/sides.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::btl::sm {
namespace {

using test::pattern;
using test::pump;
using test::Side;

class Handshake : public ::testing::Test {
 protected:
  [[nodiscard]] Address door() { return *Address::decode(victim_.module().address()); }
  [[nodiscard]] Deadline soon() const { return Deadline::after(std::chrono::seconds{10}); }

  void expect_alive() {
    Side unauthenticated{"sm"};
    btl::Endpoint* route = unauthenticated.connect(victim_);
    const std::size_t before = victim_.received.size();
    ASSERT_EQ(test::send(*route, pattern(8, 1), {}, unauthenticated, victim_), Post::done);
    ASSERT_TRUE(pump([&] { return victim_.received.size() == before + 1; }, victim_));
  }
  /// An unauthenticated connection whose hello `change` has spoilt is refused with `code`.
  void expect_refused(const std::function<void(Hello&, std::array<int, kHelloFds>&)>& change, Errc code) {
    RawPeer unauthenticated{victim_.id(), door()};
    Hello hello = unauthenticated.local.plain(HelloKind::hello, victim_.id());
    hello.your_index = 5;
    hello.max_send = 32768;
    std::array<int, kHelloFds> fds{unauthenticated.inbox.fd(), unauthenticated.link->out->fd(),
                                   unauthenticated.registrations.fd(), unauthenticated.doorbell.get()};
    change(hello, fds);
    ASSERT_TRUE(send_hello(unauthenticated.socket.get(), hello, fds));
    const auto answer = receive_hello(unauthenticated.socket.get(), soon());
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->hello.kind, HelloKind::refused);
    EXPECT_EQ(static_cast<Errc>(answer->hello.refusal), code);
  }

  Side victim_{"sm"};
};

Fd memory_file(std::size_t size, int seals) {
  Fd fd{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST_F(Handshake, DescriptorsOfTheWrongKindAreRefused) {
  constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const Fd unsealed = memory_file(1 << 20, 0);
  const Fd empty = memory_file(4096, kSize);  // sealed, but neither magic is there
  const Fd tiny = memory_file(8, kSize);
  const Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  const Fd blocking{::eventfd(0, EFD_CLOEXEC)};
  for (std::size_t which = 0; which < 3; ++which) {  // inbox, segment, registrations
    for (const Fd* fd : {&unsealed, &null, &tiny}) {
      expect_refused([&](Hello&, auto& fds) { fds[which] = fd->get(); }, Errc::protocol);
    }
    if (which < 2) expect_refused([&](Hello&, auto& fds) { fds[which] = empty.get(); }, Errc::protocol);
  }
  expect_refused([](Hello&, auto& fds) { std::swap(fds[0], fds[1]); }, Errc::protocol);
  expect_refused([&](Hello&, auto& fds) { fds[3] = null.get(); }, Errc::protocol);
  expect_refused([&](Hello&, auto& fds) { fds[3] = blocking.get(); }, Errc::protocol);
  expect_alive();
}

TEST_F(Handshake, WrongNumbersInTheHelloAreRefused) {
  expect_refused([](Hello& hello, auto&) { hello.to = PeerId::random(); }, Errc::protocol);
  expect_refused([](Hello& hello, auto&) { hello.your_index = wire::kMaxPeers; }, Errc::protocol);
  expect_refused([](Hello& hello, auto&) { hello.max_send = 0; }, Errc::protocol);
  expect_refused([](Hello& hello, auto&) { hello.max_send = 0xffffffff; }, Errc::protocol);
  expect_refused([](Hello& hello, auto&) { hello.from = PeerId::random(); }, Errc::protocol);  // not its segment's
  expect_refused([&](Hello& hello, auto&) { hello.from = victim_.id(); }, Errc::invalid_argument);
  expect_alive();
}

TEST_F(Handshake, WhatIsNotAHelloIsHungUpOn) {
  const std::vector<std::size_t> sizes{1, 7, 8, sizeof(Hello) - 1, sizeof(Hello), sizeof(Hello) + 1, 4000};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Fd socket = *connect_to(door().door, soon());
    const auto nonsense = pattern(sizes[i], static_cast<std::uint32_t>(i));
    ASSERT_EQ(::send(socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sizes[i]));
    const auto answer = receive_hello(socket.get(), soon());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::peer_gone) << "closed without a word";
  }
  for (const HelloKind kind : {HelloKind::accept, HelloKind::crossing, HelloKind::refused, HelloKind::goodbye}) {
    RawPeer unauthenticated{victim_.id(), door()};
    const Hello hello = unauthenticated.local.plain(kind, victim_.id());
    const std::array fds{unauthenticated.inbox.fd(), unauthenticated.link->out->fd(),
                         unauthenticated.registrations.fd(), unauthenticated.doorbell.get()};
    ASSERT_TRUE(send_hello(unauthenticated.socket.get(), hello,
                           kind == HelloKind::accept ? std::span<const int>{fds} : std::span<const int>{}));
    const auto answer = receive_hello(unauthenticated.socket.get(), soon());
    EXPECT_FALSE(answer);
  }
  expect_alive();
}

TEST_F(Handshake, AnotherVersionIsHungUpOnAndSaysSo) {
  RawPeer unauthenticated{victim_.id(), door()};
  Hello hello = unauthenticated.local.plain(HelloKind::goodbye, victim_.id());
  hello.version = kHelloVersion + 1;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  const Fd left{pair[0]};
  const Fd right{pair[1]};
  ASSERT_TRUE(send_hello(left.get(), hello));
  const auto received = receive_hello(right.get(), soon());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, Errc::version_mismatch);
}

TEST_F(Handshake, SilentVisitorsDoNotKeepOthersOut) {
  std::vector<Fd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(*connect_to(door().door, soon()));
  Side unauthenticated{"sm"};
  ASSERT_TRUE(pump(
      [&] { return unauthenticated.module().connect(victim_.id(), victim_.module().address()).has_value(); }, victim_));
}

/// Calls read() until the thread has given its core away so many times more; false after a while.
bool has_slept(const Fd& status, int times) {
  const auto voluntary = [&] {
    std::array<char, 4096> text{};
    const ssize_t size = ::pread(status.get(), text.data(), text.size() - 1, 0);
    const std::string_view all{text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
    const std::size_t at = all.find("\nvoluntary_ctxt_switches:");
    return at == std::string_view::npos ? 0L : std::strtol(all.data() + at + 25, nullptr, 10);
  };
  const long before = voluntary();
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (voluntary() < before + times) {
    if (deadline.expired()) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(HandshakeWithoutDescriptors, TheThreadThatAcceptsSleepsAndAcceptsWhenThereAreSomeAgain) {
  test::Child child{[](test::Channel& parent) {
    Side own{"sm"};
    std::string path;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) {
      if (entry.path().filename() != std::to_string(::gettid())) path = entry.path() / "status";
    }
    const Fd status{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!status) return 1;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit before = limit;
    {
      const Fd next{::dup(0)};
      limit.rlim_cur = static_cast<rlim_t>(next.get());
    }
    ::setrlimit(RLIMIT_NOFILE, &limit);
    parent.send(own.blob());
    if (!parent.expect("at the door")) return 2;
    if (!has_slept(status, 3)) return 3;
    ::setrlimit(RLIMIT_NOFILE, &before);
    parent.send("room");
    return pump([&] { return own.received.size() == 1; }, own) ? 0 : 4;
  }};
  const auto blob = child.channel().receive();
  PeerId peer;
  ASSERT_TRUE(read_object(blob, peer));
  const Address address = *Address::decode(ByteSpan{blob}.subspan(sizeof peer));
  const Fd stranger = *connect_to(address.door, Deadline::after(std::chrono::seconds{10}));
  child.channel().send("at the door");
  ASSERT_TRUE(child.channel().expect("room")) << "the thread does not sleep";
  Side unauthenticated{"sm"};
  EXPECT_EQ(test::send(*unauthenticated.connect(blob), pattern(8, 1), {}, unauthenticated), Post::done);
  EXPECT_EQ(child.wait(), 0);
}

TEST(HandshakeWithoutDescriptors, AnAnswerComesWithoutItsDescriptorAndAHelloSaysWhatTheLimitIs) {
  const int result = test::in_child([] {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return 1;
    const std::array<int, kHelloFds> fds{};
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(Fd{::dup(0)}.get());
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const auto received = [&](HelloKind kind, std::size_t descriptors) {
      Hello hello;
      hello.kind = kind;
      hello.pool_base = 4096;
      (void)send_hello(pair[0], hello, {fds.data(), descriptors});
      return receive_hello(pair[1], Deadline::after(std::chrono::seconds{10}));
    };
    const auto pool = received(HelloKind::pool, 1);
    if (!pool || pool->file || pool->hello.kind != HelloKind::pool) return 2;
    const auto file = received(HelloKind::file, 1);
    if (!file || file->file || file->hello.refusal == 0) return 3;
    for (const HelloKind kind : {HelloKind::hello, HelloKind::accept}) {
      const auto refused = received(kind, kHelloFds);
      if (refused || refused.error().code != Errc::limit_reached) return 4;
    }
    return 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(Handshake, ASegmentThatIsNotOfWholePagesIsRefused) {
  expect_refused(
      [&](Hello& hello, auto& fds) {
        const Mapping whole = *mpool::SharedPool::attach(fds[1]);
        static Fd odd;
        odd = memory_file(whole.size() + 8, 0);
        ASSERT_EQ(::pwrite(odd.get(), whole.data(), 4096, 0), 4096);
        ASSERT_EQ(::fcntl(odd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        fds[1] = odd.get();
        (void)hello;
      },
      Errc::protocol);
  expect_alive();
}

TEST_F(Handshake, AnAddressOfAnotherWorldIsUnreachableWithTheReason) {
  Side unauthenticated{"sm"};
  auto refusal = [&](const std::function<void(Address&)>& change) {
    Address address = door();
    change(address);
    const auto result = unauthenticated.module().connect(victim_.id(), bytes_of(address));
    return result ? Error{} : result.error();
  };
  EXPECT_EQ(refusal([](Address& address) { ++address.host; }).code, Errc::unreachable);
  EXPECT_EQ(refusal([](Address& address) { ++address.user_id; }).code, Errc::unreachable);
  EXPECT_EQ(refusal([](Address& address) {
              ++address.user_id, ++address.user_namespace, address.door = PeerId::random();
            }).os_errno,
            ECONNREFUSED)
      << "another namespace's numbers do not count: it has tried the door";
  EXPECT_EQ(refusal([](Address& address) { ++address.version; }).code, Errc::version_mismatch);
  EXPECT_EQ(refusal([](Address& address) { address.peer = PeerId::random(); }).code, Errc::protocol);
  const Error gone = refusal([](Address& address) { address.door = PeerId::random(); });
  EXPECT_EQ(gone.code, Errc::unreachable);
  EXPECT_EQ(gone.os_errno, ECONNREFUSED);
  EXPECT_EQ(refusal([](Address&) {}).code, Errc{});
}

TEST_F(Handshake, ConnectingToItselfIsRefused) {
  EXPECT_FALSE(victim_.module().connect(victim_.id(), victim_.module().address()));
}

TEST_F(Handshake, AListenerThatNeverAnswersIsUnreachableInTime) {
  const PeerId door = PeerId::random();
  const PeerId peer = PeerId::random();
  const Fd listener = *listen_at(door);
  Config config;
  config.connect_timeout = std::chrono::milliseconds{30};
  Side unauthenticated{with(config)};
  const Address address = *Address::here(peer, door);
  const auto result = unauthenticated.module().connect(peer, bytes_of(address));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::unreachable);
  EXPECT_EQ(unauthenticated.module().progress(1), 1U) << "the index the listener may know comes back";
}

}  // namespace
}  // namespace opal::btl::sm
