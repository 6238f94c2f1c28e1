// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/sockets.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "opal/core/log.hpp"

namespace opal::btl::tcp {
namespace {

constexpr int kBacklog = 4096;  // the kernel reduces it to its limit (net.core.somaxconn)

void set(int fd, int level, int option, int value, const char* what) {
  if (::setsockopt(fd, level, option, &value, sizeof value) == 0) return;
  const int error = errno;
  log::once(log::Level::warn, what, "btl.tcp", "cannot set {} to {}: {}", what, value, std::strerror(error));
}

/// Selects reno within a host, where no congestion occurs.  Pacing (bbr, a common default) is 2 to 4 times slower.
void set_congestion(int fd) noexcept {
  if (local_address(fd).ip != peer_address(fd).ip) return;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);  // on failure the default stays
}

Result<Fd> make_socket(int family) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) return Error{Errc::os, errno, "socket(tcp)"};
  return fd;
}

/// 0, or the errno of bind or listen.
int try_listen(int fd, SocketAddress address, std::uint16_t port) noexcept {
  address.set_port(port);
  sockaddr_storage storage{};
  const socklen_t length = address.to(storage);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&storage), length) != 0) return errno;
  return ::listen(fd, kBacklog) == 0 ? 0 : errno;
}

Result<Fd> listen_in_range(const Config& config, const SocketAddress& address) {
  const std::uint32_t first = config.port_min;
  const std::uint32_t last = std::max(config.port_max, first);
  for (std::uint32_t port = first; port <= last; ++port) {
    OPAL_TRY_ASSIGN(Fd fd, make_socket(address.is_v4() ? AF_INET : AF_INET6));
    const int off = 0;
    if (!address.is_v4()) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    // A restarted program finds connections of its predecessor in TIME_WAIT.  Not with port 0: the kernel might then
    // choose a port that another socket is about to listen at.
    const int reuse = port != 0 ? 1 : 0;
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    const int error = try_listen(fd.get(), address, static_cast<std::uint16_t>(port));
    if (error == 0) return fd;
    if (error != EADDRINUSE && error != EACCES) return Error{Errc::os, error, "bind/listen(tcp)", port};
  }
  return Error{Errc::limit_reached, EADDRINUSE, "bind(tcp): every port of the range is taken", first};
}

SocketAddress name_of(int fd, int (*call)(int, sockaddr*, socklen_t*)) noexcept {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (call(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  const auto address = SocketAddress::from(reinterpret_cast<const sockaddr&>(storage));
  return address ? *address : SocketAddress{};
}

}  // namespace

Result<Fd> listen_on(const Config& config, const SocketAddress* only) {
  if (only != nullptr) return listen_in_range(config, *only);
  if (auto both = listen_in_range(config, SocketAddress{}); both) return both;
  // IPv6 failed, as a rule since this kernel or namespace has none.
  SocketAddress any_v4;
  any_v4.ip[10] = any_v4.ip[11] = 0xff;
  return listen_in_range(config, any_v4);
}

Result<Fd> start_connect(const SocketAddress& address) {
  OPAL_TRY_ASSIGN(Fd fd, make_socket(address.is_v4() ? AF_INET : AF_INET6));
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // also for the handshake
  sockaddr_storage storage{};
  const socklen_t length = address.to(storage);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS) {
    return Error{Errc::unreachable, errno, "connect(tcp)", address.port_number()};
  }
  return fd;
}

void tune(const Config& config, int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  set_congestion(fd);
  if (config.peer_timeout.count() == 0) return;
  // Keepalive detects a dead host on an idle connection; is_silent() does so with data in flight.  TCP_USER_TIMEOUT
  // would also end the connection to a live peer that does not read.
  const int seconds = static_cast<int>(config.peer_timeout.count() / 1000);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::clamp(seconds / 2, 1, 32767), "TCP_KEEPIDLE");
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::clamp(seconds / 8, 1, 32767), "TCP_KEEPINTVL");
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4, "TCP_KEEPCNT");
}

SocketAddress local_address(int fd) noexcept { return name_of(fd, &::getsockname); }
SocketAddress peer_address(int fd) noexcept { return name_of(fd, &::getpeername); }

std::int64_t send_some(int fd, iovec* vectors, std::size_t count) noexcept {
  msghdr message{};
  message.msg_iov = vectors;
  message.msg_iovlen = count;
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const ssize_t sent = TEMP_FAILURE_RETRY(count == 1 ? ::send(fd, vectors->iov_base, vectors->iov_len, kFlags)
                                                     : ::sendmsg(fd, &message, kFlags));
  if (sent >= 0) return sent;
  return errno == EAGAIN ? 0 : -errno;
}

std::int64_t send_some(int fd, ByteSpan bytes) noexcept {
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send_some(fd, &vector, 1);
}

std::int64_t receive_some(int fd, MutableBytes to) noexcept {
  const ssize_t got = TEMP_FAILURE_RETRY(::recv(fd, to.data(), to.size(), MSG_DONTWAIT));
  return got >= 0 ? got : -errno;
}

std::int64_t receive_some(int fd, MutableBytes to, MutableBytes after) noexcept {
  const std::array<iovec, 2> vectors{{{to.data(), to.size()}, {after.data(), after.size()}}};
  const ssize_t got = TEMP_FAILURE_RETRY(::readv(fd, vectors.data(), static_cast<int>(vectors.size())));
  return got >= 0 ? got : -errno;
}

bool has_input(int fd) noexcept {
  std::byte next{};
  return ::recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

bool is_silent(int fd, std::uint64_t period_ns) noexcept {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  // With a closed window no data is in flight.  The kernel then sends probes at growing intervals; tcpi_probes counts
  // those without an answer.
  const bool waiting = info.tcpi_unacked != 0 || info.tcpi_probes > 1;
  return waiting && std::uint64_t{info.tcpi_last_ack_recv} * 1'000'000U >= period_ns;
}

std::size_t unacknowledged(int fd) noexcept {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace opal::btl::tcp
