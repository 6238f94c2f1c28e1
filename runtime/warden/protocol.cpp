// SPDX-License-Identifier: Apache-2.0
#include "runtime/warden/protocol.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace runtime::warden {
namespace {

constexpr std::size_t kMostFds = 4;

class Writer {
 public:
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(ByteSpan bytes) noexcept : bytes_(bytes) {}

  bool number(std::uint64_t& value) {
    if (!opal::read_object(bytes_, value)) return false;
    bytes_ = bytes_.subspan(sizeof value);
    return true;
  }
  bool text(std::string& value) {
    std::uint64_t size = 0;
    if (!number(size) || size > bytes_.size()) return false;
    value.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return true;
  }
  bool texts(std::vector<std::string>& values) {
    std::uint64_t count = 0;
    if (!number(count) || count > bytes_.size()) return false;  // each takes at least its own length field
    values.resize(count);
    for (std::string& value : values) {
      if (!text(value)) return false;
    }
    return true;
  }
  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

 private:
  ByteSpan bytes_;
};

}  // namespace

std::string encode(const SpawnPlan& plan) {
  Writer writer;
  writer.text(plan.path);
  writer.texts(plan.arguments);
  writer.texts(plan.environment);
  writer.text(plan.working_directory);
  writer.number(plan.cpus.size());
  for (const std::uint32_t cpu : plan.cpus) writer.number(cpu);
  writer.number(plan.open_files);
  return writer.take();
}

Result<SpawnPlan> decode(ByteSpan bytes) {
  const Error garbled{Errc::protocol, 0, "warden: garbled plan"};
  SpawnPlan plan;
  Reader reader{bytes};
  std::uint64_t cpus = 0;
  if (!reader.text(plan.path) || !reader.texts(plan.arguments) || !reader.texts(plan.environment) ||
      !reader.text(plan.working_directory) || !reader.number(cpus) || cpus > bytes.size()) {
    return garbled;
  }
  for (std::uint64_t i = 0; i < cpus; ++i) {
    std::uint64_t cpu = 0;
    if (!reader.number(cpu) || cpu > UINT32_MAX) return garbled;
    plan.cpus.push_back(static_cast<std::uint32_t>(cpu));
  }
  if (!reader.number(plan.open_files) || !reader.at_end() || plan.arguments.empty()) return garbled;
  return plan;
}

Result<void> send_message(int socket, ByteSpan message, const std::vector<int>& fds) {
  if (fds.size() > kMostFds) return Error{Errc::invalid_argument, 0, "warden: too many descriptors", fds.size()};
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
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET) return Error{Errc::peer_gone, errno, "warden: sendmsg"};
  return Error{Errc::os, errno, "warden: sendmsg"};
}

Result<std::optional<Received>> receive_message(int socket, opal::MutableBytes message, bool wait) {
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<Received>{};
  if (size < 0 && errno == ECONNRESET) size = 0;
  if (size < 0) return Error{Errc::os, errno, "warden: recvmsg"};
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
    return Error{Errc::protocol, 0, "warden: message of a wrong size", received.size};
  }
  return std::optional<Received>{std::move(received)};
}

}  // namespace runtime::warden
