// SPDX-License-Identifier: Apache-2.0
// The listening side of the bootstrap.
#include "opal/am/bootstrap/bootstrap.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/bootstrap/waiter.hpp"
#include "opal/btl/shared/socket_address.hpp"
#include "opal/core/log.hpp"

namespace opal::am {

namespace {

constexpr int kAcceptsPerRound = 64;

/// "host:port"; empty if the address family is unknown.
std::string name_of(const sockaddr_storage& address) {
  const auto named = btl::SocketAddress::from(reinterpret_cast<const sockaddr&>(address));
  return named ? to_string(*named) : "";
}

sockaddr_storage address_of(const Fd& socket) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  (void)::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

/// The place of the port is the same in both families.
std::uint16_t& port_of(sockaddr_storage& address) noexcept {
  return reinterpret_cast<sockaddr_in*>(&address)->sin_port;
}
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

/// Listens at `entry`, at `port` (network byte order) if it is not 0.
Result<Fd> listen_at(const addrinfo& entry, std::uint16_t port) {
  Fd socket{::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return Error{Errc::os, errno, "socket(bootstrap)"};
  const int yes = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // Otherwise the wildcard IPv6 socket would also take the port of the IPv4 addresses.
  if (entry.ai_family == AF_INET6) (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  sockaddr_storage address{};
  std::memcpy(&address, entry.ai_addr, entry.ai_addrlen);
  if (port != 0) port_of(address) = port;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), entry.ai_addrlen) != 0) {
    return Error{Errc::os, errno, "bind(bootstrap)", ntohs(port_of(address))};
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return Error{Errc::os, errno, "listen(bootstrap)"};
  return socket;
}

}  // namespace

Bootstrap::Bootstrap(std::vector<Fd> sockets, const Secret& secret, Waiter& waiter) noexcept
    : sockets_(std::move(sockets)),
      where_(name_of(address_of(sockets_.front()))),
      address_(address_of(sockets_.front())),
      secret_(secret),
      waiter_(waiter) {}

Bootstrap::~Bootstrap() {
  while (!pending_.empty()) drop(pending_.begin());
  for (const Fd& socket : sockets_) waiter_.remove(socket.get());
}

void Bootstrap::close_in_child() noexcept {
  for (Fd& socket : sockets_) socket.reset();
  for (Pending& pending : pending_) pending.socket.reset();
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::listen(std::string_view host_port, const Secret& secret, Waiter& waiter) {
  OPAL_TRY_ASSIGN(const AddressList list, resolve(host_port, true));
  std::vector<Fd> sockets;
  std::uint16_t port = 0;
  Error last{Errc::unreachable, 0, "bootstrap: no address to listen at"};
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    auto socket = listen_at(*entry, port);
    if (socket) {
      sockaddr_storage address = address_of(*socket);
      port = port_of(address);
      sockets.push_back(std::move(*socket));
      continue;
    }
    last = socket.error();
    // A name may resolve to addresses that this host lacks: skip these.  A port in use belongs to another program:
    // fail.
    if (last.os_errno == EADDRINUSE) return last;
    log::debug("am", "listen {}: {}", host_port, to_string(last));
  }
  if (sockets.empty()) return last;
  for (const Fd& socket : sockets) OPAL_TRY(waiter.add(socket.get()));
  return std::unique_ptr<Bootstrap>{new Bootstrap{std::move(sockets), secret, waiter}};
}

void Bootstrap::accept_at(const Fd& listening) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Fd socket{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) {
      if (errno == EAGAIN) return;
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        continue;  // only this connection failed
      log::once(log::Level::warn, "am.bootstrap.accept", "am", "bootstrap: cannot accept connections now: {}",
                std::strerror(errno));
      return;  // connections wait in the kernel's queue
    }
    const bootstrap_wire::Challenge challenge{bootstrap_wire::kMagic, bootstrap_wire::kVersion, 0, fresh_nonce()};
    // The empty send buffer of a new connection takes the whole Challenge.
    if (::send(socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) continue;
    if (pending_.size() == kMaxPending) make_room();
    if (!waiter_.add(socket.get())) continue;
    pending_.push_back({std::move(socket), challenge});
  }
}

void Bootstrap::make_room() {
  const auto stranger = std::ranges::find_if(pending_, [](const Pending& pending) { return !pending.head_is_genuine; });
  drop(stranger != pending_.end() ? stranger : pending_.begin());
}

Bootstrap::Reading Bootstrap::read(Pending& pending) {
  for (;;) {
    const MutableBytes wanted = pending.head_is_genuine ? MutableBytes{pending.peer_address}
                                                        : std::as_writable_bytes(std::span{&pending.head, 1});
    while (pending.received < wanted.size()) {
      const ssize_t got =
          ::recv(pending.socket.get(), wanted.data() + pending.received, wanted.size() - pending.received, 0);
      if (got == 0) return Reading::broken;
      if (got < 0) return errno == EAGAIN || errno == EINTR ? Reading::more : Reading::broken;
      pending.received += static_cast<std::size_t>(got);
    }
    if (pending.head_is_genuine) {
      return same(pending.head.address_proof, bootstrap_wire::proof_of_address(secret_, pending.peer_address))
                 ? Reading::whole
                 : Reading::broken;
    }
    if (!same(pending.head.proof,
              bootstrap_wire::proof_of(secret_, bootstrap_wire::kConnector, pending.challenge, pending.head))) {
      log::once(log::Level::warn, "am.bootstrap.stranger", "am",
                "bootstrap: refused a connection that does not know our secret: another am_secret_file, or a stranger; "
                "more are refused silently");
      return Reading::broken;
    }
    if (pending.head.size == 0 || pending.head.size > kMaxAddressSize) return Reading::broken;
    pending.head_is_genuine = true;
    pending.received = 0;
    pending.peer_address.resize(pending.head.size);
  }
}

void Bootstrap::answer(Pending& pending, ByteSpan own) {
  const bootstrap_wire::Head head =
      bootstrap_wire::make_head(secret_, bootstrap_wire::kListener, pending.challenge, pending.head.nonce, own);
  // The send buffer takes all of the answer: progress() must not wait for a peer that reads slowly.  The kernel counts
  // its own bookkeeping, which is more than the data if segments are short.
  const int size = static_cast<int>(4 * (sizeof head + own.size()));
  (void)::setsockopt(pending.socket.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  const Deadline now = Deadline::after(std::chrono::seconds{0});
  if (!send_all(pending.socket.get(), bytes_of(head), now) || !send_all(pending.socket.get(), own, now)) {
    log::warn("am", "bootstrap: a peer closed its connection before it had our address");
  }
}

std::list<Bootstrap::Pending>::iterator Bootstrap::drop(std::list<Pending>::iterator pending) {
  waiter_.remove(pending->socket.get());
  return pending_.erase(pending);
}

}  // namespace opal::am
