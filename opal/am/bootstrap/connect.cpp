// SPDX-License-Identifier: Apache-2.0
// The connecting side of the bootstrap, and the functions that both sides use.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/bootstrap/bootstrap.hpp"

namespace opal::am {

namespace {

constexpr std::chrono::milliseconds kStagger{250};  // after which the next address is tried beside a silent one

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

/// The listener closes the connection without a reason when it refuses, so a peer without the secret learns nothing.
Error connection_closed() {
  return {Errc::protocol, 0,
          "bootstrap: the listener closed the connection: another secret, or it cannot reach our address"};
}

Result<void> receive_all(int socket, MutableBytes bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return connection_closed();
    } else if (errno == EAGAIN) {
      OPAL_TRY(wait_for(socket, POLLIN, deadline));
    } else if (errno != EINTR) {
      return Error{Errc::unreachable, errno, "recv(bootstrap)"};
    }
  }
  return {};
}

/// True for a service name or a number up to 65535: getaddrinfo() accepts larger numbers, modulo 65536.
bool is_port(const std::string& text) noexcept {
  const bool number = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return !text.empty() && (!number || (text.size() <= 5 && std::stoul(text) <= 65535));
}

}  // namespace

Result<AddressList> resolve(std::string_view host_port, bool to_listen) {
  const std::size_t colon = host_port.rfind(':');
  if (colon == std::string_view::npos) {
    return Error{Errc::invalid_argument, 0, "bootstrap address: expected \"host:port\""};
  }
  std::string host{host_port.substr(0, colon)};
  const std::string port{host_port.substr(colon + 1)};
  if (!is_port(port)) return Error{Errc::invalid_argument, 0, "bootstrap address: the port has to be 0 to 65535"};
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

Result<void> send_all(int socket, ByteSpan bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      OPAL_TRY(wait_for(socket, POLLOUT, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return connection_closed();
    } else if (errno != EINTR) {
      return Error{Errc::unreachable, errno, "send(bootstrap)"};
    }
  }
  return {};
}

Result<Fd> connect_to_any(const addrinfo* list, const Deadline& deadline) {
  Error last{Errc::unreachable, 0, "bootstrap: no address to try"};
  const auto failed = [&last](int error, const char* what) {
    if (last.os_errno != ECONNREFUSED) last = {Errc::unreachable, error, what};
  };
  std::vector<Fd> sockets;
  std::vector<pollfd> polled;  // the same
  Deadline next_at = Deadline::never();
  while (list != nullptr || !sockets.empty()) {
    if (list != nullptr && (sockets.empty() || next_at.expired())) {
      const addrinfo& address = *std::exchange(list, list->ai_next);
      Fd socket{::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
      if (!socket) {
        failed(errno, "socket(bootstrap)");
        continue;
      }
      if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
      if (errno != EINPROGRESS) {
        failed(errno, "connect(bootstrap)");
        continue;
      }
      polled.push_back({socket.get(), POLLOUT, 0});
      sockets.push_back(std::move(socket));
      next_at = Deadline::after(kStagger);
    }
    const bool sooner = list != nullptr && next_at.remaining() < deadline.remaining();
    if (::poll(polled.data(), polled.size(), (sooner ? next_at : deadline).poll_timeout_ms()) < 0 && errno != EINTR) {
      return Error{Errc::os, errno, "poll(bootstrap)"};
    }
    for (std::size_t i = sockets.size(); i-- > 0;) {
      if (polled[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      (void)::getsockopt(sockets[i].get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) return std::move(sockets[i]);
      failed(error, "connect(bootstrap)");
      sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(i));
      polled.erase(polled.begin() + static_cast<std::ptrdiff_t>(i));
      next_at = Deadline::after(std::chrono::nanoseconds{0});
    }
    if (!deadline.expired()) continue;
    return last.os_errno == ECONNREFUSED ? last : Error{Errc::timed_out, 0, "bootstrap: no answer in time"};
  }
  return last;
}

Result<std::vector<std::byte>> exchange_addresses(std::string_view host_port, const Secret& secret, ByteSpan own,
                                                  std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  OPAL_TRY_ASSIGN(const AddressList list, resolve(host_port, false));
  auto socket = connect_to_any(list.get(), deadline);
  while (!socket && socket.error().os_errno == ECONNREFUSED && !deadline.expired()) {
    (void)::poll(nullptr, 0, 10);  // no listener yet: try again soon
    socket = connect_to_any(list.get(), deadline);
  }
  if (!socket) return socket.error();

  bootstrap_wire::Challenge challenge{};
  OPAL_TRY(receive_all(socket->get(), std::as_writable_bytes(std::span{&challenge, 1}), deadline));
  if (challenge.magic != bootstrap_wire::kMagic)
    return Error{Errc::protocol, 0, "bootstrap: the other side is not OPAL"};
  if (challenge.version != bootstrap_wire::kVersion) {
    return Error{Errc::version_mismatch, 0, "bootstrap: the listener has another version of OPAL", challenge.version};
  }
  const bootstrap_wire::Head head =
      bootstrap_wire::make_head(secret, bootstrap_wire::kConnector, challenge, fresh_nonce(), own);
  OPAL_TRY(send_all(socket->get(), bytes_of(head), deadline));
  OPAL_TRY(send_all(socket->get(), own, deadline));
  bootstrap_wire::Head theirs{};
  OPAL_TRY(receive_all(socket->get(), std::as_writable_bytes(std::span{&theirs, 1}), deadline));
  const bool genuine =
      same(theirs.proof, bootstrap_wire::proof_of(secret, bootstrap_wire::kListener, challenge, theirs));
  if (!genuine || theirs.nonce != head.nonce) {
    return Error{Errc::permission, 0, "bootstrap: the listener does not know our secret"};
  }
  if (theirs.size > kMaxAddressSize) return Error{Errc::protocol, 0, "bootstrap: address too long", theirs.size};
  std::vector<std::byte> address(theirs.size);
  OPAL_TRY(receive_all(socket->get(), address, deadline));
  if (!same(theirs.address_proof, bootstrap_wire::proof_of_address(secret, address))) {
    return Error{Errc::protocol, 0, "bootstrap: the listener's address was changed on its way"};
  }
  return address;
}

}  // namespace opal::am
