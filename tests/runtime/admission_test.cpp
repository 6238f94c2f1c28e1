// SPDX-License-Identifier: Apache-2.0
// Which connections libpmix's listener gets: those of this user whose first message is there whole.
#include "runtime/pmix/admission.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace runtime::pmix {
namespace {

/// A listener on loopback, as libpmix has one.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(::listen(fd_.get(), 512), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  [[nodiscard]] int get() const { return fd_.get(); }
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] Fd connect() const {
    Fd client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    return client;
  }

 private:
  Fd fd_;
  sockaddr_in address_{};
};

/// libpmix's header for a message of `size` bytes, then so many bytes.
std::string message(std::uint32_t size, char fill = 'x') {
  std::string text(16, '\0');
  std::memcpy(&text[8], &size, sizeof size);
  return text + std::string(size <= 1U << 20 ? size : 0, fill);
}

void send_all(const Fd& fd, std::string_view text) {
  ASSERT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

/// True when the other side has closed the connection.
bool is_closed(const Fd& fd) {
  char c = 0;
  return ::recv(fd.get(), &c, 1, 0) <= 0;
}

TEST(Admission, ASilentConnectionDoesNotHoldUpTheOthers) {
  const Listener listener;
  Admission admission;
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(listener.connect());
  const Fd speaking = listener.connect();
  const std::string text = message(300);
  send_all(speaking, text);
  const Fd admitted{admission.next(listener.get())};
  ASSERT_TRUE(admitted);
  EXPECT_EQ(admission.waiting(), 20U);
  int on = 0;
  socklen_t size = sizeof on;
  ASSERT_EQ(::getsockopt(admitted.get(), IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_NE(on, 0) << "an event would wait 40 ms for the acknowledgement of the one before";
  std::string got(text.size(), '\0');
  ASSERT_EQ(::recv(admitted.get(), got.data(), got.size(), MSG_DONTWAIT), static_cast<ssize_t>(got.size()))
      << "the whole message is there";
  EXPECT_EQ(got, text);
  silent.clear();
  EXPECT_EQ(admission.next(listener.get()), -1) << "all that were waited for have gone";
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(admission.waiting(), 0U);
}

TEST(Admission, AMessageThatComesInPiecesIsHandedOverWhole) {
  const Listener listener;
  Admission admission;
  const Fd slow = listener.connect();
  const Fd silent = listener.connect();
  const std::string text = message(50);
  std::size_t sent = 0;
  for (const std::size_t cut : {1U, 15U, 16U, 17U, 65U}) {
    send_all(slow, std::string_view{text}.substr(sent, cut - sent));
    sent = cut;
    const Fd other = listener.connect();
    send_all(other, text);
    const Fd admitted{admission.next(listener.get())};
    ASSERT_TRUE(admitted);
    std::string got(text.size(), '\0');
    EXPECT_EQ(::recv(admitted.get(), got.data(), got.size(), MSG_DONTWAIT), static_cast<ssize_t>(got.size())) << cut;
  }
  send_all(slow, std::string_view{text}.substr(65));
  const Fd admitted{admission.next(listener.get())};
  ASSERT_TRUE(admitted);
  EXPECT_EQ(admission.waiting(), 1U) << "the one that has said nothing";
}

/// By the functions that libpmix calls, which are linked in here.
TEST(Admission, AConnectionWhoseMessageComesAfterThatOfALaterOneIsNotForgotten) {
  const Listener listener;
  const Fd late = listener.connect();
  const Fd early = listener.connect();
  send_all(early, message(10));
  const Fd first{::accept(listener.get(), nullptr, nullptr)};
  ASSERT_TRUE(first);
  send_all(late, message(20));
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(listener.get(), &readable);
  timeval timeout{10, 0};
  ASSERT_EQ(::select(listener.get() + 1, &readable, nullptr, nullptr, &timeout), 1) << "no connection comes any more";
  const Fd second{::accept(listener.get(), nullptr, nullptr)};
  ASSERT_TRUE(second);
  std::string got(36, '\0');
  EXPECT_EQ(::recv(second.get(), got.data(), got.size(), MSG_DONTWAIT), 36);
}

TEST(Admission, NonsenseAndHalfAMessageThatEndsAreClosed) {
  const Listener listener;
  Admission admission;
  const Fd nonsense = listener.connect();
  send_all(nonsense, message(0xffffffff));
  const Fd half = listener.connect();
  send_all(half, message(100).substr(0, 40));
  ASSERT_EQ(::shutdown(half.get(), SHUT_WR), 0);
  EXPECT_EQ(admission.next(listener.get()), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(is_closed(nonsense));
  EXPECT_TRUE(is_closed(half));
}

TEST(Admission, AConnectionThatStaysSilentIsClosedInTheEnd) {
  const Listener listener;
  Admission admission{ownership_of, std::chrono::milliseconds{1}};
  const Fd silent = listener.connect();
  EXPECT_EQ(admission.next(listener.get()), -1);
  EXPECT_TRUE(is_closed(silent));
}

TEST(Admission, AConnectionOfAnotherUserIsClosedAtOnce) {
  const Listener listener;
  Admission admission{[](int) { return Ownership::foreign; }};
  const Fd stranger = listener.connect();
  send_all(stranger, message(10));
  EXPECT_EQ(admission.next(listener.get()), -1);
  EXPECT_TRUE(is_closed(stranger));
}

TEST(Ownership, OfAConnectionIsTheUserThatMadeIt) {
  const Listener listener;
  const Fd ours = listener.connect();
  const Fd accepted{::accept4(listener.get(), nullptr, nullptr, 0)};
  ASSERT_TRUE(accepted);
  EXPECT_EQ(ownership_of(accepted.get()), Ownership::ours);
  { const Fd gone = listener.connect(); }
  const Fd left{::accept4(listener.get(), nullptr, nullptr, 0)};
  ASSERT_TRUE(left);
  EXPECT_EQ(ownership_of(left.get()), Ownership::foreign) << "no process has the other end any more";
}

// The kernel answers a question for a connection with a listening socket of the same port if it finds nothing better.
TEST(Ownership, OfAConnectionFromElsewhereIsForeignAlsoIfAnOwnListenerHasItsPort) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to remove a socket without a word to its peer";
  const Listener listener;
  const int yes = 1;
  const auto bound_to = [&](std::uint16_t port) {
    Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = port;
    EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0) << std::strerror(errno);
    return fd;
  };
  Fd elsewhere = bound_to(0);
  ASSERT_EQ(::connect(elsewhere.get(), listener.address(), sizeof(sockaddr_in)), 0);
  const Fd accepted{::accept4(listener.get(), nullptr, nullptr, 0)};
  ASSERT_TRUE(accepted);
  sockaddr_in its{};
  socklen_t size = sizeof its;
  ASSERT_EQ(::getpeername(accepted.get(), reinterpret_cast<sockaddr*>(&its), &size), 0);
  const Fd same_port = bound_to(its.sin_port);
  ASSERT_EQ(::listen(same_port.get(), 1), 0) << std::strerror(errno);
  EXPECT_EQ(ownership_of(accepted.get()), Ownership::ours);
  // From here on the other end is not on this host, as far as its kernel knows.
  ASSERT_EQ(::setsockopt(elsewhere.get(), IPPROTO_TCP, TCP_REPAIR, &yes, sizeof yes), 0) << std::strerror(errno);
  elsewhere.reset();
  EXPECT_EQ(ownership_of(accepted.get()), Ownership::foreign);
}

TEST(Ownership, OfAnotherUsersConnectionIsForeign) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to become another user";
  const Listener listener;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader{ends[0]};
  Fd writer{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) {
    writer.reset();
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const Fd connection = listener.connect();
    char c = 0;
    ::_exit(::read(reader.get(), &c, 1) == 0 ? 0 : 1);
  }
  ASSERT_EQ(::fcntl(listener.get(), F_SETFL, 0), 0);  // wait for the child
  const Fd accepted{::accept4(listener.get(), nullptr, nullptr, 0)};
  EXPECT_EQ(ownership_of(accepted.get()), Ownership::foreign);
  writer.reset();
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// In a child, whose limit of descriptors is its own.
TEST(Admission, WithoutDescriptorsStrangersAreStillRefusedAndOursAreServed) {
  const Listener listener;
  const pid_t child = ::fork();
  if (child == 0) {
    int strangers = 100;
    Admission admission{[&](int) { return strangers-- > 0 ? Ownership::foreign : Ownership::ours; }};
    std::vector<Fd> clients;
    for (int i = 0; i < 101; ++i) clients.push_back(listener.connect());
    send_all(clients.back(), message(10));
    std::vector<Fd> all;
    while (true) {
      Fd next{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
      const int last = next.get();
      all.push_back(std::move(next));
      const rlimit limit{static_cast<rlim_t>(last + 1), static_cast<rlim_t>(last + 1)};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(2);
      if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) break;
    }
    ::_exit(Fd{admission.next(listener.get())} && strangers < 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace runtime::pmix
