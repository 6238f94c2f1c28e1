// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/module.hpp"

#include <poll.h>

#include <algorithm>
#include <span>
#include <utility>

#include "opal/btl/component.hpp"
#include "opal/btl/shared/host.hpp"
#include "opal/btl/tcp/connections/sockets.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::tcp {
namespace {

/// progress() reads from the connection of the latest message without epoll_wait: one system call, not two.  Every
/// kPollsPerCollect polls, and before a sleep, it collects the events of all connections.
constexpr std::uint32_t kHotPolls = 256;  // polls without an event, after which that connection is not preferred
constexpr unsigned kPollsPerCollect = 8;

Attributes attributes_of(const Config& config) {
  Attributes attributes;
  attributes.transport = "tcp";
  attributes.max_send = config.max_send.bytes;
  attributes.eager = std::min(config.eager.bytes, config.max_send.bytes);
  attributes.latency_ns = 10'000;
  return attributes;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  OPAL_TRY_ASSIGN(const InterfaceFilter include, InterfaceFilter::parse(config.if_include));
  OPAL_TRY_ASSIGN(const InterfaceFilter exclude, InterfaceFilter::parse(config.if_exclude));
  OPAL_TRY_ASSIGN(const std::vector<Interface> all, local_interfaces());
  const std::vector<Interface> chosen = select(all, include, exclude);
  if (chosen.empty()) return Error{Errc::unreachable, 0, "tcp: no interface is left to use", all.size()};
  const bool filtered = !include.empty() || !exclude.empty();

  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  // One address: listen only there.  Several, selected by filters: listen everywhere, and the acceptor refuses
  // connections to other addresses.
  const bool one = chosen.size() == 1 && (filtered || chosen[0].address.is_loopback());
  OPAL_TRY_ASSIGN(Fd listening, listen_on(config, one ? &chosen[0].address : nullptr));
  const Nonce token = fresh_nonce();
  std::unique_ptr<Module> module{
      new Module{parameters, config, std::move(waiting), token, filtered && !one ? chosen : std::vector<Interface>{}}};
  module->host_number_ = host_number("/proc/self/ns/net");
  const auto port = local_address(listening.get()).port;
  Address address{parameters.id, token, module->host_number_, {}};
  for (const Interface& interface : chosen) {
    if (address.sockets.size() == kMaxSockets) break;
    address.sockets.push_back(interface.address);
    address.sockets.back().port = port;
  }
  module->address_ = encode(address);
  OPAL_TRY(module->acceptor_.watch(std::move(listening)));
  return module;
}

Module::Module(const ModuleParameters& parameters, const Config& config, Waiting waiting, const Nonce& token,
               std::vector<Interface> allowed)
    : ConnectedTransport(parameters, attributes_of(config)),
      config_(config),
      reactor_(std::move(waiting)),
      acceptor_(reactor_, config_, parameters.id, parameters.secret.derive(wire::kConnectionKey, bytes_of(token)),
                std::move(allowed), *this) {}

Module::~Module() {
  if (!inherited()) acceptor_.stop();
  end_all();
  linger();
}

void Module::linger() noexcept {
  const Deadline deadline = Deadline::after(kCloseTimeout);
  const auto waits = [](const auto& endpoint) { return endpoint->awaits_acknowledgement(); };
  while (std::ranges::any_of(leaving(), waits) && !deadline.expired()) {
    reactor_.collect();
    reactor_.run();
    // An acknowledgement causes no event, so wait at most 1 ms.
    pollfd fd{reactor_.wait_fd(), POLLIN, 0};
    if (std::ranges::any_of(leaving(), waits)) (void)::poll(&fd, 1, 1);
  }
  stop_leaving();
}

// ---- Peers ------------------------------------------------------------------------------------------------------

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(Address decoded, decode(address));
  if (decoded.id != peer) return Error{Errc::protocol, 0, "tcp address: it is another peer's"};
  if (peer == parameters().id) return Error{Errc::unreachable, 0, "tcp: does not connect a process to itself"};
  if (Endpoint* known = find(peer); known != nullptr) {
    if (!known->dead()) return known;
    known->end(known->error());  // a send has failed; unread input is dropped
  }
  const bool same_host = decoded.host == host_number_;
  std::erase_if(decoded.sockets, [&](const SocketAddress& socket) { return socket.is_loopback() && !same_host; });
  if (decoded.sockets.empty()) {
    return Error{Errc::unreachable, 0, "tcp: the peer has only loopback addresses, on another host"};
  }
  OPAL_TRY_ASSIGN(std::unique_ptr<Endpoint> created, Endpoint::create(*this, reactor_, peer));
  Endpoint& endpoint = add(std::move(created));
  const Secret key = parameters().secret.derive(wire::kConnectionKey, bytes_of(decoded.token));
  endpoint.dial({parameters().id, peer, config_.max_send.bytes, key}, std::move(decoded.sockets));
  acceptor_.unpark(peer);  // the peer may wait for the answer to its own attempt, and would not answer this one
  return &endpoint;
}

bool Module::leave(Endpoint& endpoint, const Error& why) noexcept {
  if (hot_ == &endpoint) hot_ = nullptr;
  endpoint.leave(why);
  return !endpoint.left();
}

Result<void> Module::listen_only_at(const sockaddr& address) {
  OPAL_TRY_ASSIGN(SocketAddress only, SocketAddress::from(address));
  only.port = {};
  const std::span host_part{only.ip.data() + 12, 4};
  const bool every = only.ip == SocketAddress{}.ip ||
                     (only.is_v4() && std::ranges::all_of(host_part, [](auto byte) { return byte == 0; }));
  if (every || !config_.if_include.empty() || !config_.if_exclude.empty()) return {};
  OPAL_TRY_ASSIGN(Address own, decode(address_));
  OPAL_TRY_ASSIGN(Fd listening, listen_on(config_, &only));
  only.port = local_address(listening.get()).port;
  OPAL_TRY(acceptor_.watch(std::move(listening)));  // closes the former socket; after an error that one stays
  own.sockets = {only};
  address_ = encode(own);
  return {};
}

void Module::ended(Endpoint& endpoint) noexcept {
  if (hot_ == &endpoint) hot_ = nullptr;
  end(endpoint);
}

Acceptor::Decision Module::decide(const PeerId& from) noexcept {
  if (from == parameters().id) return Acceptor::Decision::refuse;
  const Endpoint* known = find(from);
  // Parked until the end of the earlier connection has been reported.
  if (known == nullptr) return vacant(from) ? Acceptor::Decision::accept : Acceptor::Decision::park;
  // Both connect at the same time: the connection that the lower PeerId makes stays.  Both sides decide equally.
  if (known->dialing() && from < parameters().id) return Acceptor::Decision::accept;
  return Acceptor::Decision::park;
}

void Module::on_connection(const PeerId& from, Fd fd, std::uint32_t peer_max_send) noexcept {
  ++events_;
  if (Endpoint* known = find(from); known != nullptr) {
    if (known->dialing()) known->adopt(std::move(fd), peer_max_send);
    return;
  }
  auto created = Endpoint::create(*this, reactor_, from);
  if (!created) {
    log::warn("btl.tcp", "connection of peer {} dropped: {}", to_string(from), opal::to_string(created.error()));
    return;
  }
  (*created)->adopt(std::move(fd), peer_max_send);
  if ((*created)->dead()) {
    log::warn("btl.tcp", "connection of peer {} dropped: {}", to_string(from), opal::to_string((*created)->error()));
    return;
  }
  accept(std::move(*created));
}

// ---- Messages ---------------------------------------------------------------------------------------------------

void Module::deliver(Endpoint& from, Delivery& delivery) noexcept {
  --turns_;
  ++events_;
  hot_ = &from;
  parameters().handlers.dispatch(delivery);
}

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (!accepts(to, header.size() + payload.size())) return Post::failed;
  return static_cast<Endpoint&>(to).send_inline(tag, header, payload);
}

Fragment Module::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  if (!accepts(to, size)) return {};
  if (static_cast<Endpoint&>(to).lacks_room(size)) return {};  // before the caller fills a buffer in vain
  return ConnectedTransport::alloc(to, size);
}

// ---- Progress ---------------------------------------------------------------------------------------------------

bool Module::worth_polling() noexcept {
  constexpr std::uint32_t kPollsBeforeSkips = 32;          // polls without an event
  constexpr std::uint32_t kMostSkipped = 16;               // rounds, with endpoints
  constexpr std::uint32_t kMostSkippedWithoutPeers = 256;  // only a new connection is noticed later
  if (skip_ != 0) {
    --skip_;
    return false;
  }
  ++empty_polls_;
  if (empty_polls_ > kPollsBeforeSkips) {
    skip_ = std::min(empty_polls_ - kPollsBeforeSkips, living().empty() ? kMostSkippedWithoutPeers : kMostSkipped);
    empty_polls_ = std::min(empty_polls_, kPollsBeforeSkips + kMostSkippedWithoutPeers);
  }
  return true;
}

std::size_t Module::receive(std::size_t budget) noexcept {
  turns_ = budget;
  events_ = 0;
  begin_batch();  // the answers of handlers leave together
  if (worth_polling() && !poll_hot()) reactor_.collect();
  if (events_ != 0 || reactor_.has_work()) empty_polls_ = 0;
  if (reactor_.has_work()) reactor_.run();
  --batches_;
  release_held();
  // Scheduled sources count as an event: they make no descriptor readable, so the caller must not sleep.
  return events_ + (reactor_.has_work() ? 1 : 0);
}

void Module::end_batch() noexcept {
  if (--batches_ == 0) release_held();
}

void Module::release_held() noexcept {
  while (!held_.empty()) held_.back()->release();
}

bool Module::poll_hot() noexcept {
  if (hot_ == nullptr || empty_polls_ > kHotPolls) return false;
  hot_->poll();
  return hot_ != nullptr && ++polls_ % kPollsPerCollect != 0;
}

bool Module::arm_wake_up() noexcept {
  skip_ = 0;  // the first progress() after the sleep polls the kernel
  reactor_.collect();
  return !reactor_.has_work();
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "tcp",
      .summary = "TCP connections between any hosts",
      .exclusivity = 100,
      .vars = &kGroup,
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
        config.connect_timeout = parameters.connect_timeout;
        return only(Module::open(parameters, config));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::tcp
