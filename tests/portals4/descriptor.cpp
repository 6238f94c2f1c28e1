// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/descriptor.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

namespace opal::test::portals4 {
namespace {

// Never destroyed: threads of the double may run until the process is gone.
struct OpenDescriptors {
  std::mutex mutex;
  std::vector<int> numbers;
};

OpenDescriptors& open_descriptors() {
  static auto* const all = new OpenDescriptors;
  return *all;
}

// Opens under the mutex, so that a fork meets either no descriptor or one that is listed.
template <class Open>
int open_listed(Open open) {
  OpenDescriptors& all = open_descriptors();
  const std::lock_guard lock{all.mutex};
  const int number = open();
  if (number >= 0) all.numbers.push_back(number);
  return number;
}

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

// Abstract names need no file, and go with the last descriptor of the socket.
Name name_of(ptl_pid_t pid) {
  Name name;
  name.address.sun_family = AF_UNIX;
  const int length = std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1,
                                   "opal-portals4-double-%u", static_cast<unsigned>(pid));
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  return name;
}

Transfer failed_transfer() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Transfer::again;
  return errno == EFAULT ? Transfer::fault : Transfer::ended;
}

}  // namespace

Descriptor Descriptor::stream_socket() {
  return Descriptor{open_listed([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); })};
}

Descriptor Descriptor::event() {
  return Descriptor{open_listed([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); })};
}

Descriptor Descriptor::accepted(const Descriptor& listener) {
  return Descriptor{
      open_listed([&] { return ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); })};
}

void Descriptor::reset() {
  if (number_ < 0) return;
  OpenDescriptors& all = open_descriptors();
  const std::lock_guard lock{all.mutex};
  std::erase(all.numbers, number_);
  ::close(std::exchange(number_, -1));
}

void hold_descriptors() { open_descriptors().mutex.lock(); }
void release_descriptors() { open_descriptors().mutex.unlock(); }

void close_descriptors_in_child() {
  OpenDescriptors& all = open_descriptors();
  for (const int number : all.numbers) ::close(number);
  all.numbers.clear();
}

Transfer receive(const Descriptor& socket, std::byte* to, std::size_t size, std::size_t& done) {
  while (done < size) {
    const ssize_t got = ::recv(socket.get(), to + done, size - done, 0);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return Transfer::ended;
    } else if (errno != EINTR) {
      return failed_transfer();
    }
  }
  return Transfer::complete;
}

Transfer send(const Descriptor& socket, const std::byte* head, std::size_t head_size, const std::byte* body,
              std::size_t body_size, std::size_t& done) {
  while (done < head_size + body_size) {
    const std::size_t head_done = std::min(done, head_size);
    const std::size_t body_done = done - head_done;
    iovec parts[2] = {{const_cast<std::byte*>(head) + head_done, head_size - head_done},
                      {const_cast<std::byte*>(body) + body_done, body_size - body_done}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = body_size == body_done ? 1 : 2;
    const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno != EINTR) {
      return failed_transfer();
    }
  }
  return Transfer::complete;
}

Peer peer_of(const Descriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return {static_cast<ptl_pid_t>(credentials.pid), credentials.uid};
}

bool listen_as(const Descriptor& socket, ptl_pid_t pid) {
  const Name name = name_of(pid);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0 &&
         ::listen(socket.get(), SOMAXCONN) == 0;
}

Transfer connect_to(const Descriptor& socket, ptl_pid_t pid) {
  const Name name = name_of(pid);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    if (errno != EINTR) return failed_transfer();
  }
  // A name is bound by the process it tells, or it is not ours.
  return peer_of(socket).pid == pid ? Transfer::complete : Transfer::ended;
}

}  // namespace opal::test::portals4
