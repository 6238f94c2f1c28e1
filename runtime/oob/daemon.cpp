// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/daemon.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "opal/am/components.hpp"
#include "opal/am/config.hpp"
#include "opal/am/transports/transports.hpp"

namespace runtime::oob {
namespace {

constexpr std::string_view kFirst = "tcp";              // reaches every process of the job
constexpr std::string_view kPieceOverSm = "131072";     // bytes; with what it says around it, a message of 64 KiB fits
constexpr int kRoundsPerTurn = 64;                      // of progress, before other events of the loop get their turn
constexpr std::string_view kPendingLimit = "16777216";  // bytes; a window and the largest message fit
constexpr std::chrono::milliseconds kRetry{1};          // not every transport announces that it has room again

bool is_set(const opal::config::Store& store, std::string_view name) {
  return std::any_of(store.settings().begin(), store.settings().end(),
                     [&](const auto& setting) { return setting.name == name; });
}

/// Whether am_transports allows kFirst.  Errors: those of am::TransportFilter::parse().
Result<bool> first_is_allowed(const opal::config::Store& store, std::string_view transports) {
  const opal::btl::Registry registry = opal::am::find_components(store).registry;
  OPAL_TRY_ASSIGN(const auto filter, opal::am::TransportFilter::parse(transports, registry));
  return filter.allows(*registry.find(kFirst));
}

}  // namespace

struct Daemon::Peer {
  Peer(opal::am::Endpoint& to, Connection::Role role, Upgrader& upgrader)
      : endpoint(to), connection(to, role, upgrader) {}
  opal::am::Endpoint& endpoint;
  Connection connection;
};

Daemon::Daemon(event::Loop& loop, const opal::config::Store& store, const opal::Secret& secret, DaemonHost host)
    : loop_(loop), store_(store), secret_(secret), host_(std::move(host)) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::open(event::Loop& loop, const opal::config::Store& store,
                                             const opal::Secret& secret, DaemonHost host) {
  std::unique_ptr<Daemon> daemon{new Daemon{loop, store, secret, std::move(host)}};
  OPAL_TRY_ASSIGN(const opal::am::Config config, store.load(opal::am::kGroup));
  // Without tcp the first Context has everything, and nothing is better.
  opal::config::Store first = store;
  OPAL_TRY_ASSIGN(const bool begins_with_first, first_is_allowed(store, config.transports));
  if (begins_with_first) first.set("am_transports", kFirst);
  daemon->can_upgrade_ = begins_with_first && config.transports != kFirst;
  OPAL_TRY(daemon->open_side(daemon->base_, first, opal::btl::bind<&Daemon::on_piece>(*daemon, "runtime oob")));
  loop.post([self = daemon.get()] { self->service(); });  // arms the descriptor
  return daemon;
}

Result<void> Daemon::open_side(Side& side, const opal::config::Store& store, const opal::btl::Handler& handler) {
  opal::am::Options options;
  options.observer = this;
  options.secret = secret_;
  opal::config::Store ours = store;
  // A daemon sleeps after almost every message: its senders fence; it does not interrupt all of them each time.
  ours.set("am_ranks_per_core", "2");
  // It is woken by the first piece of a message, and would sleep again before the next one.
  if (!is_set(store, "btl_sm_max_send") && !is_set(store, "btl_sm_segment_size")) {
    ours.set("btl_sm_max_send", kPieceOverSm);
  }
  ours.set("am_pending_limit", kPendingLimit);
  OPAL_TRY_ASSIGN(side.context, opal::am::Context::open(ours, options));
  OPAL_TRY(side.context->set_handler(kActiveMessageTag, handler));
  side.readable = loop_.on_readable(side.context->fd(), [this, &side] {
    side.awake = true;
    side.armed = false;
    service();
  });
  return {};
}

Result<opal::am::Endpoint*> Daemon::connect(ByteSpan address) {
  OPAL_TRY_ASSIGN(opal::am::Endpoint * endpoint, base_.context->connect(address));
  (void)peer_of(*endpoint, Connection::Role::asks);
  base_.awake = true;
  kick();
  return endpoint;
}

Result<void> Daemon::send(opal::am::Endpoint& to, Topic topic, std::string content) {
  Peer& peer = peer_of(to);
  const auto sent = peer.connection.stream().send(topic, std::move(content));
  step_peer(peer);
  kick();
  return sent;
}

void Daemon::disconnect(opal::am::Endpoint& endpoint) {
  const auto entry = peers_.find(&endpoint);
  if (entry != peers_.end()) {
    entry->second->connection.end();
    peers_.erase(entry);
  }
  std::erase(over_, &endpoint);
  base_.context->disconnect(endpoint);
  wake();
  kick();
}

bool Daemon::has_unsent(opal::am::Endpoint& to) {
  return !peer_of(to).connection.stream().idle() || base_.waits_for_room() || upgrade_.waits_for_room();
}

std::string_view Daemon::transport(opal::am::Endpoint& to) {
  const opal::am::Endpoint* const way = peer_of(to).connection.stream().current();
  return way == nullptr ? "none" : way->attributes().transport;
}

/// Posts a service(), once: operations posted outside progress() need the next progress() to be sent.
void Daemon::kick() {
  if (kicked_) return;
  kicked_ = true;
  loop_.post([this] {
    kicked_ = false;
    service();
  });
}

/// The Context stays armed until a progress() that handles something.
void Daemon::Side::advance() {
  if (context == nullptr) awake = false;
  if (!awake) return;
  if (context->progress() != 0) {
    armed = false;
    return;
  }
  // Room is announced only to a peer that arms without it.
  armed = (armed && !waits_for_room()) || context->arm();
  awake = !armed;
}

void Daemon::catch_up() {
  wake();
  service();
}

void Daemon::service() {
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    step();  // first: an endpoint that is over goes before the same peer comes back
    base_.advance();
    upgrade_.advance();
    if (base_.awake || upgrade_.awake || step_) continue;
    if (!base_.waits_for_room() && !upgrade_.waits_for_room()) {
      retry_ = {};
    } else if (!retry_) {
      retry_ = loop_.after(kRetry, [this] {
        retry_ = {};
        catch_up();
      });
    }
    return;
  }
  loop_.post([this] { service(); });
}

/// Call it after each use of a peer's connection.  It schedules step() and does not run it, since the caller may be
/// inside progress().
void Daemon::step_peer(Peer& peer) {
  Side& side = peer.connection.stream().current() == peer.connection.upgrade() ? upgrade_ : base_;
  side.awake = true;
  step_ = step_ || peer.connection.needs_step();
}

void Daemon::step() {
  if (!std::exchange(step_, false)) return;
  wake();  // for the notes about ways that go out by either
  for (opal::am::Endpoint* endpoint : std::exchange(over_, {})) endpoint->context().disconnect(*endpoint);
  std::vector<opal::am::Endpoint*> lost;
  for (const auto& [endpoint, peer] : peers_) {
    peer->connection.step();
    if (opal::am::Endpoint* const upgrade = peer->connection.upgrade()) by_upgrade_[upgrade] = peer.get();
    if (peer->connection.alive()) {
      step_peer(*peer);
    } else {
      lost.push_back(endpoint);
    }
  }
  for (opal::am::Endpoint* endpoint : lost) lose(*endpoint);
}

Daemon::Peer& Daemon::peer_of(opal::am::Endpoint& endpoint, Connection::Role role) {
  std::unique_ptr<Peer>& peer = peers_[&endpoint];
  Upgrader& upgrader = *this;
  if (!peer) peer = std::make_unique<Peer>(endpoint, role, upgrader);
  return *peer;
}

// --- Transport upgrades

ByteSpan Daemon::upgrade_address() {
  if (upgrade_.context == nullptr && can_upgrade_) {
    can_upgrade_ =
        open_side(upgrade_, store_, opal::btl::bind<&Daemon::on_upgrade_piece>(*this, "runtime oob, upgrade"))
            .has_value();
  }
  return can_upgrade_ ? upgrade_.context->address() : ByteSpan{};
}

opal::am::Endpoint* Daemon::connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) {
  return upgrade_address().empty() ? nullptr : connect_if_better(*upgrade_.context, address, base);
}

void Daemon::disconnect_upgrade(opal::am::Endpoint& endpoint) {
  by_upgrade_.erase(&endpoint);
  upgrade_.context->disconnect(endpoint);
}

void Daemon::on_upgrade_piece(opal::btl::Delivery& delivery) noexcept {
  opal::am::Endpoint& from = opal::am::sender(delivery);
  if (const auto known = by_upgrade_.find(&from); known != by_upgrade_.end()) {
    return receive(*known->second, from, delivery.data);
  }
  const bool expelled = std::find(over_.begin(), over_.end(), &from) != over_.end();
  if (!expelled && !take_upgrade_hello(from, delivery.data)) expel(from);
}

/// A transport upgrade is accepted only from a peer that was offered one.
bool Daemon::take_upgrade_hello(opal::am::Endpoint& upgrade, ByteSpan piece) {
  const auto header = read_header(piece);
  Note note;
  if (!header || Topic{header->topic} != Topic::upgrade_hello) return false;
  if (!opal::read_object(piece.subspan(sizeof *header), note)) return false;
  const auto entry = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const auto& each) { return each.second->connection.expects(note); });
  if (entry == peers_.end()) return false;
  by_upgrade_[&upgrade] = entry->second.get();
  entry->second->connection.on_upgrade_hello(upgrade);
  step_peer(*entry->second);
  return true;
}

void Daemon::expel(opal::am::Endpoint& endpoint) {
  if (std::find(over_.begin(), over_.end(), &endpoint) == over_.end()) over_.push_back(&endpoint);
  step_ = true;
  kick();
}

// --- Messages

void Daemon::on_piece(opal::btl::Delivery& delivery) noexcept {
  opal::am::Endpoint& from = opal::am::sender(delivery);
  if (!peers_.contains(&from)) supersede(from);
  Peer* peer = &peer_of(from);
  if (peer->connection.stream().is_from_another_incarnation(delivery.data)) {
    renew(from);
    peer = &peer_of(from);
  }
  receive(*peer, from, delivery.data);
}

/// A peer that has connected again has a new endpoint.  Ends the connection on its old endpoint; on_lost runs
/// for it before the first message of the new one.
void Daemon::supersede(const opal::am::Endpoint& fresh) {
  const auto former =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& each) { return each.first->peer() == fresh.peer(); });
  if (former == peers_.end()) return;
  opal::am::Endpoint& endpoint = *former->first;
  renew(endpoint);
  expel(endpoint);
}

/// Ends the connection on `endpoint`, because the peer has a new incarnation.  on_lost runs before the first
/// message of the new connection, which may use the same endpoint.
void Daemon::renew(opal::am::Endpoint& endpoint) {
  const auto entry = peers_.find(&endpoint);
  if (opal::am::Endpoint* const upgrade = entry->second->connection.upgrade()) {
    by_upgrade_.erase(upgrade);
    expel(*upgrade);
  }
  const std::unique_ptr<Peer> over = std::move(entry->second);
  peers_.erase(entry);
  host_.on_lost(over->endpoint, {Errc::peer_gone, 0, "oob: the peer has made its connection anew"});
}

void Daemon::receive(Peer& peer, opal::am::Endpoint& from, ByteSpan piece) {
  const auto message = peer.connection.receive(from, piece);
  step_peer(peer);
  if (!message) {
    host_.say(fmt::format("a message of another daemon is dropped: {}", opal::to_string(message.error())));
    return;
  }
  if (*message == nullptr || (*message)->topic < Topic::user) return;
  host_.on_message(peer.endpoint, (*message)->topic, peer.connection.stream().take(**message));
}

// --- Ends

/// Schedules step(), which finds out whether the peer is lost.  Runs inside progress().
void Daemon::on_peer_failed(opal::am::Endpoint& endpoint, const Error& /*why*/) noexcept {
  const bool upgrade = upgrade_.context != nullptr && &endpoint.context() == upgrade_.context.get();
  if (upgrade && !by_upgrade_.contains(&endpoint)) return expel(endpoint);
  step_ = true;
  kick();
}

/// Removes a peer without an endpoint.
void Daemon::lose(opal::am::Endpoint& endpoint) {
  const auto entry = peers_.find(&endpoint);
  if (entry == peers_.end()) return;
  host_.on_lost(entry->second->endpoint, endpoint.error());
  disconnect(endpoint);
}

}  // namespace runtime::oob
