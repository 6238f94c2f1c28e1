// SPDX-License-Identifier: Apache-2.0
#include "opal/am/bootstrap.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "opal/am/address.hpp"
#include "opal/am/waiter.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::am {

namespace wire = bootstrap_wire;

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// "host:port" or "[v6]:port" resolved.
Result<AddressList> resolve(std::string_view host_port, bool to_listen) {
  const std::size_t colon = host_port.rfind(':');
  if (colon == std::string_view::npos) {
    return Error{Errc::invalid_argument, 0, "bootstrap address: expected \"host:port\""};
  }
  std::string host{host_port.substr(0, colon)};
  const std::string port{host_port.substr(colon + 1)};
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list) != 0) {
    return Error{Errc::unreachable, 0, "bootstrap address: host or port unknown"};
  }
  return AddressList{list, &::freeaddrinfo};
}

std::string name_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(socket, generic, &size) != 0 ||
      ::getnameinfo(generic, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

/// Waits for `events`; timed_out at the deadline.
Result<void> wait_for(int socket, short events, const Deadline& deadline) {
  pollfd fd{socket, events, 0};
  for (;;) {
    const int ready = ::poll(&fd, 1, deadline.poll_timeout_ms());
    if (ready > 0) return {};
    if (ready == 0) return Error{Errc::timed_out, 0, "bootstrap: no answer in time"};
    if (errno != EINTR) return Error{Errc::os, errno, "poll(bootstrap)"};
  }
}

/// A refusal looks the same as a crash: who does not know the secret is told nothing.
Error hung_up() {
  return {Errc::protocol, 0, "bootstrap: the listener hung up: another secret, or it cannot reach our address"};
}

Result<void> send_all(int socket, ByteSpan bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      OPAL_TRY(wait_for(socket, POLLOUT, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return hung_up();
    } else if (errno != EINTR) {
      return Error{Errc::unreachable, errno, "send(bootstrap)"};
    }
  }
  return {};
}

Result<void> receive_all(int socket, MutableBytes bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return hung_up();
    } else if (errno == EAGAIN) {
      OPAL_TRY(wait_for(socket, POLLIN, deadline));
    } else if (errno != EINTR) {
      return Error{Errc::unreachable, errno, "recv(bootstrap)"};
    }
  }
  return {};
}

/// One attempt over all addresses of the host.
Result<Fd> connect_once(const addrinfo* list, const Deadline& deadline) {
  Error last{Errc::unreachable, 0, "bootstrap: no address to try"};
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    Fd socket{::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return Error{Errc::os, errno, "socket(bootstrap)"};
    if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0) return socket;
    if (errno != EINPROGRESS) {
      last = {Errc::unreachable, errno, "connect(bootstrap)"};
      continue;
    }
    OPAL_TRY(wait_for(socket.get(), POLLOUT, deadline));
    int failure = 0;
    socklen_t size = sizeof failure;
    (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure == 0) return socket;
    last = {Errc::unreachable, failure, "connect(bootstrap)"};
  }
  return last;
}

}  // namespace

Bootstrap::Bootstrap(Fd socket, std::string where, const Secret& secret, Waiter& waiter) noexcept
    : socket_(std::move(socket)), where_(std::move(where)), secret_(secret), waiter_(waiter) {}

Bootstrap::~Bootstrap() {
  while (!visitors_.empty()) drop(visitors_.begin());
  waiter_.remove(socket_.get());
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::listen(std::string_view host_port, const Secret& secret, Waiter& waiter) {
  OPAL_TRY_ASSIGN(const AddressList list, resolve(host_port, true));
  Fd socket{::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return Error{Errc::os, errno, "socket(bootstrap)"};
  const int yes = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0) return Error{Errc::os, errno, "bind(bootstrap)"};
  if (::listen(socket.get(), SOMAXCONN) != 0) return Error{Errc::os, errno, "listen(bootstrap)"};
  OPAL_TRY(waiter.add(socket.get()));
  std::string where = name_of(socket.get());
  return std::unique_ptr<Bootstrap>{new Bootstrap{std::move(socket), std::move(where), secret, waiter}};
}

void Bootstrap::accept_new() {
  while (visitors_.size() < kMaxVisitors) {
    Fd socket{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) return;
    const wire::Challenge challenge{wire::kMagic, wire::kVersion, 0, fresh_nonce()};
    // A fresh connection takes so little whole.
    if (::send(socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) continue;
    if (!waiter_.add(socket.get())) return;
    visitors_.push_back({std::move(socket), challenge});
  }
}

Bootstrap::Reading Bootstrap::read(Visitor& visitor) {
  for (;;) {
    const MutableBytes wanted =
        visitor.head_is_genuine ? MutableBytes{visitor.blob} : std::as_writable_bytes(std::span{&visitor.head, 1});
    while (visitor.received < wanted.size()) {
      const ssize_t got =
          ::recv(visitor.socket.get(), wanted.data() + visitor.received, wanted.size() - visitor.received, 0);
      if (got == 0) return Reading::broken;
      if (got < 0) return errno == EAGAIN || errno == EINTR ? Reading::more : Reading::broken;
      visitor.received += static_cast<std::size_t>(got);
    }
    if (visitor.head_is_genuine) {
      return same(visitor.head.blob, wire::proof_of_blob(secret_, visitor.blob)) ? Reading::whole : Reading::broken;
    }
    if (!same(visitor.head.proof, wire::proof_of(secret_, wire::kVisitor, visitor.challenge, visitor.head))) {
      log::once(log::Level::warn, "am.bootstrap.stranger", "am",
                "bootstrap: refused a connection that does not know our secret: another am_secret_file, or a stranger; "
                "more are refused silently");
      return Reading::broken;
    }
    if (visitor.head.size == 0 || visitor.head.size > kMaxAddressSize) return Reading::broken;
    visitor.head_is_genuine = true;
    visitor.received = 0;
    visitor.blob.resize(visitor.head.size);
  }
}

void Bootstrap::answer(Visitor& visitor, ByteSpan own) {
  const wire::Head head = wire::make_head(secret_, wire::kListener, visitor.challenge, visitor.head.nonce, own);
  // A fresh socket's buffer takes a blob whole; a visitor that does not read within a second has gone.
  const Deadline deadline = Deadline::after(std::chrono::seconds{1});
  if (!send_all(visitor.socket.get(), bytes_of(head), deadline) || !send_all(visitor.socket.get(), own, deadline)) {
    log::warn("am", "bootstrap: a visitor went away before it had our address");
  }
}

std::list<Bootstrap::Visitor>::iterator Bootstrap::drop(std::list<Visitor>::iterator visitor) {
  waiter_.remove(visitor->socket.get());
  return visitors_.erase(visitor);
}

Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, const Secret& secret, ByteSpan own,
                                                  std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  OPAL_TRY_ASSIGN(const AddressList list, resolve(host_port, false));
  auto socket = connect_once(list.get(), deadline);
  while (!socket && socket.error().os_errno == ECONNREFUSED && !deadline.expired()) {
    (void)::poll(nullptr, 0, 10);  // nobody listens yet: look again soon
    socket = connect_once(list.get(), deadline);
  }
  if (!socket) return socket.error();

  wire::Challenge challenge{};
  OPAL_TRY(receive_all(socket->get(), std::as_writable_bytes(std::span{&challenge, 1}), deadline));
  if (challenge.magic != wire::kMagic) return Error{Errc::protocol, 0, "bootstrap: the other side is not OPAL"};
  if (challenge.version != wire::kVersion) {
    return Error{Errc::version_mismatch, 0, "bootstrap: the listener has another version of OPAL", challenge.version};
  }
  const wire::Head head = wire::make_head(secret, wire::kVisitor, challenge, fresh_nonce(), own);
  OPAL_TRY(send_all(socket->get(), bytes_of(head), deadline));
  OPAL_TRY(send_all(socket->get(), own, deadline));
  wire::Head theirs{};
  OPAL_TRY(receive_all(socket->get(), std::as_writable_bytes(std::span{&theirs, 1}), deadline));
  const bool genuine = same(theirs.proof, wire::proof_of(secret, wire::kListener, challenge, theirs));
  if (!genuine || theirs.nonce != head.nonce) {
    return Error{Errc::permission, 0, "bootstrap: the listener does not know our secret"};
  }
  if (theirs.size > kMaxAddressSize) return Error{Errc::protocol, 0, "bootstrap: address too long", theirs.size};
  std::vector<std::byte> blob(theirs.size);
  OPAL_TRY(receive_all(socket->get(), blob, deadline));
  if (!same(theirs.blob, wire::proof_of_blob(secret, blob))) {
    return Error{Errc::protocol, 0, "bootstrap: the listener's address was changed on its way"};
  }
  return blob;
}

}  // namespace opal::am
