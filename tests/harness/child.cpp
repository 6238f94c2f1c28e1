// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "opal/core/clock.hpp"

namespace opal::test {

void Channel::send(ByteSpan message) const {
  // A peer that died is seen by the test's own expectations; SIGPIPE would only hide them.
  (void)::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL);
}

std::vector<std::byte> Channel::receive(std::chrono::seconds timeout) const {
  pollfd fd{socket_.get(), POLLIN, 0};
  const Deadline deadline = Deadline::after(timeout);
  while (::poll(&fd, 1, deadline.poll_timeout_ms()) < 0 && errno == EINTR) {
  }
  std::vector<std::byte> message(64 * 1024);
  const ssize_t size = ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT);
  message.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return message;
}

bool Channel::expect(std::string_view word) const {
  const std::vector<std::byte> message = receive();
  return message.size() == word.size() && std::memcmp(message.data(), word.data(), word.size()) == 0;
}

bool Channel::ready() const {
  pollfd fd{socket_.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

Child::Child(const std::function<int(Channel&)>& body) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
  Fd mine{sockets[0]};
  Fd theirs{sockets[1]};
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    mine.reset();
    Channel channel{std::move(theirs)};
    const int status = body(channel);
    std::fflush(nullptr);
    ::_exit(status);
  }
  channel_ = Channel{std::move(mine)};
}

Child::~Child() {
  kill();
  (void)wait();
}

void Child::kill() noexcept {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::optional<int> Child::wait(std::chrono::seconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  int status = 0;
  while (pid_ > 0) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return status;
    }
    if (deadline.expired()) return std::nullopt;
    (void)::poll(nullptr, 0, 1);
  }
  return std::nullopt;
}

}  // namespace opal::test
