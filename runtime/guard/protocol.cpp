// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/protocol.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace runtime::guard {
namespace {

constexpr std::size_t kMostFds = 4;

}  // namespace

Result<void> send_message(int socket, ByteSpan message, const std::vector<int>& fds) {
  if (fds.size() > kMostFds) return Error{Errc::invalid_argument, 0, "process guard: too many descriptors", fds.size()};
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  if (TEMP_FAILURE_RETRY(::sendmsg(socket, &header, MSG_NOSIGNAL)) >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET) return Error{Errc::peer_gone, errno, "process guard: sendmsg"};
  return Error{Errc::os, errno, "process guard: sendmsg"};
}

Result<std::optional<Received>> receive_message(int socket, opal::MutableBytes message) {
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size = TEMP_FAILURE_RETRY(::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<Received>{};
  if (size < 0 && errno == ECONNRESET) size = 0;
  if (size < 0) return Error{Errc::os, errno, "process guard: recvmsg"};
  Received received;
  received.size = static_cast<std::size_t>(size);
  for (cmsghdr* part_of = size > 0 ? CMSG_FIRSTHDR(&header) : nullptr; part_of != nullptr;
       part_of = CMSG_NXTHDR(&header, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part_of) + i * sizeof(int), sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  if (size > 0 && ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || received.size != message.size())) {
    return Error{Errc::protocol, 0, "process guard: message of a wrong size", received.size};
  }
  return std::optional<Received>{std::move(received)};
}

}  // namespace runtime::guard
