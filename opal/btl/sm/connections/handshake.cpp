// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/connections/handshake.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "opal/btl/shared/host.hpp"

namespace opal::btl::sm {
namespace {

constexpr int kBacklog = 128;

struct SocketName {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// An abstract name: it begins with a zero byte, has no file, and ends with its last socket.
SocketName name_of(const PeerId& door) {
  SocketName name;
  name.address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1, "opal-sm-%016llx%016llx",
                    static_cast<unsigned long long>(door.high), static_cast<unsigned long long>(door.low));
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  return name;
}

std::size_t expected_fds(const Hello& hello) noexcept {
  switch (hello.kind) {
    case HelloKind::hello:
    case HelloKind::accept: return kHelloFds;
    case HelloKind::pool: return hello.pool_base != 0 ? 1 : 0;
    case HelloKind::file: return hello.refusal == 0 ? 1 : 0;
    default: return 0;
  }
}

/// Takes ownership of every descriptor in a received message, so that none leaks if the message is invalid.
std::vector<Fd> take_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<Address> Address::here(const PeerId& peer, const PeerId& door) {
  Address address{};
  address.magic = kAddressMagic;
  address.version = kHelloVersion;
  OPAL_TRY_ASSIGN(address.host, identify_host("/proc/self/ns/net"));
  OPAL_TRY_ASSIGN(address.user_namespace, namespace_inode("/proc/self/ns/user"));
  address.user_id = ::geteuid();
  address.peer = peer;
  address.door = door;
  return address;
}

Result<Address> Address::decode(ByteSpan blob) {
  Address address{};
  if (blob.size() < 8 || !read_object(blob, address.magic) || address.magic != kAddressMagic) {
    return Error{Errc::protocol, 0, "sm address: not one of ours", blob.size()};
  }
  if (!read_object(blob.subspan(4), address.version) || address.version != kHelloVersion) {
    return Error{Errc::version_mismatch, 0, "sm address: version", address.version};
  }
  if (blob.size() != sizeof address || !read_object(blob, address)) {
    return Error{Errc::protocol, 0, "sm address: size", blob.size()};
  }
  return address;
}

Result<pid_t> pid_of_peer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Error{Errc::os, errno, "getsockopt(SO_PEERCRED)"};
  }
  if (credentials.uid != ::geteuid())
    return Error{Errc::permission, 0, "sm: the peer is another user", credentials.uid};
  return credentials.pid;
}

Result<Fd> listen_at(const PeerId& door) {
  Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return Error{Errc::os, errno, "socket(sm connection manager)"};
  const SocketName name = name_of(door);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    return Error{Errc::os, errno, "bind(sm connection manager)"};
  }
  if (::listen(socket.get(), kBacklog) != 0) return Error{Errc::os, errno, "listen(sm connection manager)"};
  return socket;
}

Result<Fd> connect_to(const PeerId& door, const Deadline& deadline) {
  const SocketName name = name_of(door);
  for (;;) {
    Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return Error{Errc::os, errno, "socket(sm)"};
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0) return socket;
    if (errno == ECONNREFUSED)
      return Error{Errc::unreachable, errno, "sm connect: no process has that address any more"};
    if (errno != EAGAIN && errno != EINTR) return Error{Errc::os, errno, "connect(sm)"};
    // The peer's queue is full.  Its connection manager empties the queue while the peer's program computes.
    if (deadline.expired()) return Error{Errc::unreachable, ETIMEDOUT, "sm connect: the peer's queue stays full"};
    (void)::poll(nullptr, 0, 1);
  }
}

Result<void> send_hello(int socket, const Hello& hello, std::span<const int> fds) {
  iovec part{const_cast<Hello*>(&hello), sizeof hello};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kHelloFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  if (TEMP_FAILURE_RETRY(::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0) return {};
  return Error{errno == EPIPE || errno == ECONNRESET ? Errc::peer_gone : Errc::os, errno, "sendmsg(sm hello)"};
}

Result<ReceivedHello> receive_hello(int socket, const Deadline& deadline) {
  pollfd wait{socket, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&wait, 1, deadline.poll_timeout_ms());
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return Error{Errc::os, errno, "poll(sm hello)"};
    if (ready == 0) return Error{Errc::timed_out, 0, "sm: the peer does not answer"};
  }
  ReceivedHello received;
  iovec part{&received.hello, sizeof received.hello};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * kHelloFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = TEMP_FAILURE_RETRY(::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
  if (size < 0 && errno == EAGAIN) return Error{Errc::timed_out, 0, "sm: no message yet"};
  if (size < 0 && errno != ECONNRESET) return Error{Errc::os, errno, "recvmsg(sm hello)"};
  if (size <= 0) return Error{Errc::peer_gone, size < 0 ? errno : 0, "sm: the peer closed the connection"};
  std::vector<Fd> fds = take_fds(message);
  Hello& hello = received.hello;
  if (size < 8 || hello.magic != kHelloMagic) return Error{Errc::protocol, 0, "sm hello: not one of ours"};
  if (hello.version != kHelloVersion) return Error{Errc::version_mismatch, 0, "sm hello: version", hello.version};
  if (size != static_cast<ssize_t>(sizeof hello) || (message.msg_flags & MSG_TRUNC) != 0) {
    return Error{Errc::protocol, 0, "sm hello: size", static_cast<std::uint64_t>(size)};
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    constexpr Errc kWhy = Errc::limit_reached;
    const bool optional = hello.kind == HelloKind::pool || hello.kind == HelloKind::file;
    if (!optional) return Error{kWhy, EMFILE, "sm hello: no room for its descriptors"};
    if (hello.kind == HelloKind::file) hello.refusal = static_cast<std::uint32_t>(kWhy);
    return received;
  }
  if (fds.size() != expected_fds(hello)) {
    return Error{Errc::protocol, 0, "sm hello: number of descriptors", fds.size()};
  }
  if (fds.size() == 1) received.file = std::move(fds[0]);
  if (fds.size() == kHelloFds) {
    received.fds = {std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), std::move(fds[3])};
  }
  return received;
}

}  // namespace opal::btl::sm
