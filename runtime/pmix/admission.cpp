// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/admission.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "opal/core/log.hpp"

namespace runtime::pmix {
namespace {

constexpr int kNoDescriptorsPauseMs = 10;  // limits the rate of retries when no descriptor can be freed
constexpr int kTakenAtATime = 64;          // connections accepted before the waiting ones are examined again
constexpr std::size_t kSizeOffset = 8;     // byte offset of the message size in libpmix's header

/// The local and the remote address of a connected socket.  libpmix uses IPv4 (its IPv6 is off by default).
struct Ends {
  sockaddr_in own{};
  sockaddr_in other{};
};

bool ends_of(int fd, Ends& ends) {
  socklen_t own_size = sizeof ends.own;
  socklen_t other_size = sizeof ends.other;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&ends.own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&ends.other), &other_size) == 0 &&
         ends.own.sin_family == AF_INET;
}

/// Asks the kernel (sock_diag) for the TCP socket with the local address `own` and the remote address `other`.
/// Empty: this network namespace has no such socket, or the kernel does not answer.
std::optional<inet_diag_msg> find_socket(const sockaddr_in& own, const sockaddr_in& other) {
  const Fd netlink{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
  if (!netlink) return {};
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_INET;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  id.idiag_src[0] = own.sin_addr.s_addr;
  id.idiag_sport = own.sin_port;
  id.idiag_dst[0] = other.sin_addr.s_addr;
  id.idiag_dport = other.sin_port;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(netlink.get(), &question, sizeof question, 0) != static_cast<ssize_t>(sizeof question)) return {};
  alignas(nlmsghdr) std::byte answer[4096];
  const ssize_t size = ::recv(netlink.get(), answer, sizeof answer, 0);
  nlmsghdr header;
  inet_diag_msg found;
  if (size < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof found)) return {};
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  std::memcpy(&found, answer + NLMSG_HDRLEN, sizeof found);
  // If it finds no such connection, the kernel answers with a listening socket of the port.
  if (found.id.idiag_sport != id.idiag_sport || found.id.idiag_dport != id.idiag_dport) return {};
  return found;
}

/// The address as /proc/net/tcp writes it, "0100007F:1F90" for 127.0.0.1:8080: the IP address as a number in host byte
/// order, then the port.
std::string proc_name(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

/// As ownership_of(), but from /proc/net/tcp, for a kernel without sock_diag.  Slow: it reads the list of all sockets.
Ownership ownership_by_proc(const Ends& ends) {
  std::ifstream file{"/proc/net/tcp"};
  std::string line;
  if (!std::getline(file, line)) return Ownership::unknown;
  // The peer's socket has the same two addresses the other way round.
  const std::string local = proc_name(ends.other);
  const std::string remote = proc_name(ends.own);
  while (std::getline(file, line)) {
    std::istringstream fields{line};
    std::string skipped;
    std::string from;
    std::string to;
    fields >> skipped >> from >> to;
    if (from != local || to != remote) continue;
    for (int i = 0; i < 4; ++i) fields >> skipped;  // state, queues, timer, retransmissions
    uid_t uid = 0;
    unsigned long timeout = 0;
    unsigned long inode = 0;
    fields >> uid >> timeout >> inode;
    return fields && inode != 0 && uid == ::geteuid() ? Ownership::ours : Ownership::foreign;
  }
  return Ownership::foreign;
}

}  // namespace

Ownership ownership_of(int fd) {
  Ends ends;
  if (!ends_of(fd, ends)) return Ownership::foreign;  // the peer may have reset the connection
  // The kernel keeps a socket for a while after its process has closed it; its inode is then 0.
  if (const auto theirs = find_socket(ends.other, ends.own)) {
    return theirs->idiag_inode != 0 && theirs->idiag_uid == ::geteuid() ? Ownership::ours : Ownership::foreign;
  }
  // The peer's socket does not exist here, or sock_diag does not work: a query for the own socket shows which.
  return find_socket(ends.own, ends.other) ? Ownership::foreign : ownership_by_proc(ends);
}

Admission::Admission(std::function<Ownership(int fd)> ownership, std::chrono::milliseconds timeout)
    : ownership_(std::move(ownership)), timeout_(timeout), reserve_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

/// Tests whether the first message has arrived completely.  `over`: the connection must be closed, since the peer has
/// ended it or announces too long a message.
/// Sets SO_RCVLOWAT to the number of bytes needed, so that poll(2) does not return for each byte.  Sets it to 1, the
/// default, when the message is complete.
Admission::Progress Admission::look_at(int fd) noexcept {
  std::byte header[kHeader];
  const ssize_t size = ::recv(fd, header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return Progress::over;
  std::size_t wanted = kHeader;
  if (size == static_cast<ssize_t>(kHeader)) {
    std::uint32_t message = 0;
    std::memcpy(&message, header + kSizeOffset, sizeof message);
    if (message > kLongestMessage) return Progress::over;
    wanted += message;
  }
  int arrived = 0;
  if (::ioctl(fd, FIONREAD, &arrived) != 0) return Progress::over;
  const bool complete = size == static_cast<ssize_t>(kHeader) && static_cast<std::size_t>(arrived) >= wanted;
  const int mark = complete ? 1 : static_cast<int>(wanted);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
  if (complete) return Progress::complete;
  pollfd closed{fd, POLLRDHUP, 0};
  return ::poll(&closed, 1, 0) == 0 ? Progress::partial : Progress::over;
}

std::optional<Fd> Admission::accept_one(int listener) {
  while (true) {
    // accept(2) reports EMFILE even if no connection is pending; a descriptor would then be freed below for nothing.
    pollfd pending{listener, POLLIN, 0};
    if (::poll(&pending, 1, 0) == 0) {
      errno = EAGAIN;
      return {};
    }
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return Fd{fd};
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EMFILE && errno != ENFILE) return {};
    // Free one descriptor and try again.  take() opens the reserve again as soon as a descriptor is free.
    if (reserve_) {
      reserve_.reset();
    } else if (!waiting_.empty()) {
      waiting_.pop_front();
    } else {
      ::poll(nullptr, 0, kNoDescriptorsPauseMs);
      return {};
    }
  }
}

bool Admission::take(int listener) {
  std::optional<Fd> fd = accept_one(listener);
  if (!fd) return false;
  if (ownership_(fd->get()) == Ownership::foreign) {
    opal::log::once(opal::log::Level::warn, "pmix connection of another user", "runtime",
                    "a process of another user, or one that has ended, connected to the port of the PMIx server; it is "
                    "refused, and so are others like it");
    fd.reset();
  }
  if (!reserve_) reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!fd) return true;
  const int on = 1;
  ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  waiting_.push_back({std::move(*fd), opal::Deadline::after(timeout_)});
  return true;
}

std::optional<Fd> Admission::ready_one() {
  for (auto connection = waiting_.begin(); connection != waiting_.end();) {
    const Progress progress = look_at(connection->fd.get());
    if (progress == Progress::partial && !connection->until.expired()) {
      ++connection;
      continue;
    }
    Fd fd = std::move(connection->fd);
    connection = waiting_.erase(connection);
    if (progress == Progress::complete) return fd;
  }
  return {};
}

int Admission::next(int listener) noexcept {
  while (true) {
    if (std::optional<Fd> ready = ready_one()) return ready->release();
    bool more = true;
    for (int taken = 0; taken < kTakenAtATime && (more = take(listener)); ++taken) {
      if (waiting_.empty() || look_at(waiting_.back().fd.get()) != Progress::complete) continue;
      const int fd = waiting_.back().fd.release();
      waiting_.pop_back();
      return fd;
    }
    const int error = errno;
    if (more) continue;
    if (waiting_.empty()) {
      errno = error == EBADF || error == EINVAL || error == ENOTSOCK ? error : EAGAIN;
      return -1;
    }
    std::vector<pollfd> events{{listener, POLLIN, 0}};
    for (const Waiting& connection : waiting_) events.push_back({connection.fd.get(), POLLIN | POLLRDHUP, 0});
    ::poll(events.data(), events.size(), waiting_.front().until.poll_timeout_ms());
  }
}

}  // namespace runtime::pmix
