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
  return std::ranges::any_of(store.settings(), [&](const auto& setting) { return setting.name == name; });
}

/// Whether am_transports allows kFirst.  Errors: those of am::TransportFilter::parse().
Result<bool> first_is_allowed(const opal::config::Store& store, std::string_view transports) {
  const opal::btl::Registry registry = opal::am::find_components(store).registry;
  OPAL_TRY_ASSIGN(const auto filter, opal::am::TransportFilter::parse(transports, registry));
  return filter.allows(*registry.find(kFirst));
}

}  // namespace

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
  (void)connection_of(*endpoint, Connection::Role::asks);
  base_.awake = true;
  post_service();
  return endpoint;
}

Result<void> Daemon::send(opal::am::Endpoint& to, Topic topic, std::string content) {
  Connection& connection = connection_of(to);
  const auto sent = connection.stream().send(topic, std::move(content));
  after_use(connection);
  post_service();
  return sent;
}

void Daemon::disconnect(opal::am::Endpoint& endpoint) {
  if (const auto entry = connections_.find(&endpoint); entry != connections_.end()) {
    entry->second->end();
    connections_.erase(entry);
  }
  std::erase(over_, &endpoint);
  base_.context->disconnect(endpoint);
  wake();
  post_service();
}

bool Daemon::has_unsent(opal::am::Endpoint& to) {
  return !connection_of(to).stream().idle() || base_.waits_for_room() || upgrade_.waits_for_room();
}

std::string_view Daemon::transport(opal::am::Endpoint& to) {
  const opal::am::Endpoint* const way = connection_of(to).stream().current();
  return way == nullptr ? "none" : way->attributes().transport;
}

/// Posts a service(), once: operations posted outside progress() need the next progress() to be sent.
void Daemon::post_service() {
  if (service_posted_) return;
  service_posted_ = true;
  loop_.post([this] {
    service_posted_ = false;
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

/// Call it after each use of a connection.  It schedules step() and does not run it, since the caller may be inside
/// progress().
void Daemon::after_use(Connection& connection) {
  Side& side = connection.stream().current() == connection.upgrade() ? upgrade_ : base_;
  side.awake = true;
  step_ = step_ || connection.needs_step();
}

void Daemon::step() {
  if (!std::exchange(step_, false)) return;
  wake();  // for the notes about ways that go out by either
  for (opal::am::Endpoint* endpoint : std::exchange(over_, {})) endpoint->context().disconnect(*endpoint);
  std::vector<opal::am::Endpoint*> lost;
  for (const auto& [endpoint, connection] : connections_) {
    connection->step();
    if (opal::am::Endpoint* const upgrade = connection->upgrade()) by_upgrade_[upgrade] = connection.get();
    if (connection->alive()) {
      after_use(*connection);
    } else {
      lost.push_back(endpoint);
    }
  }
  for (opal::am::Endpoint* endpoint : lost) {
    if (!connections_.contains(endpoint)) continue;  // on_lost() of another one has disconnected it
    host_.on_lost(*endpoint, endpoint->error());
    disconnect(*endpoint);
  }
}

Connection& Daemon::connection_of(opal::am::Endpoint& endpoint, Connection::Role role) {
  std::unique_ptr<Connection>& connection = connections_[&endpoint];
  Upgrader& upgrader = *this;
  if (!connection) connection = std::make_unique<Connection>(endpoint, role, upgrader);
  return *connection;
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
  if (upgrade_address().empty()) return nullptr;
  const auto endpoint = upgrade_.context->connect(address);
  if (!endpoint) return nullptr;
  if ((*endpoint)->exclusivity() > base.exclusivity()) return *endpoint;
  upgrade_.context->disconnect(**endpoint);
  return nullptr;
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
  const bool is_over = std::ranges::find(over_, &from) != over_.end();
  if (!is_over && !take_upgrade_hello(from, delivery.data)) disconnect_later(from);
}

/// A transport upgrade is accepted only from a peer that was offered one.
bool Daemon::take_upgrade_hello(opal::am::Endpoint& upgrade, ByteSpan piece) {
  const auto header = read_header(piece);
  Note note;
  if (!header || Topic{header->topic} != Topic::upgrade_hello) return false;
  if (!opal::read_object(piece.subspan(sizeof *header), note)) return false;
  const auto entry = std::ranges::find_if(connections_, [&](const auto& each) { return each.second->expects(note); });
  if (entry == connections_.end()) return false;
  by_upgrade_[&upgrade] = entry->second.get();
  entry->second->on_upgrade_hello(upgrade);
  after_use(*entry->second);
  return true;
}

/// step() disconnects the endpoint.
void Daemon::disconnect_later(opal::am::Endpoint& endpoint) {
  if (std::ranges::find(over_, &endpoint) == over_.end()) over_.push_back(&endpoint);
  step_ = true;
  post_service();
}

// --- Messages

void Daemon::on_piece(opal::btl::Delivery& delivery) noexcept {
  opal::am::Endpoint& from = opal::am::sender(delivery);
  const auto known = connections_.find(&from);
  if (known != connections_.end()) {
    if (!known->second->stream().is_from_another_incarnation(delivery.data)) {
      return receive(*known->second, from, delivery.data);
    }
    end_former_connection(from);
  } else {
    // A peer that has connected again has a new endpoint.
    const auto former =
        std::ranges::find_if(connections_, [&](const auto& each) { return each.first->peer() == from.peer(); });
    if (former != connections_.end()) {
      opal::am::Endpoint& endpoint = *former->first;
      end_former_connection(endpoint);
      disconnect_later(endpoint);
    }
  }
  receive(connection_of(from), from, delivery.data);
}

/// Ends the connection on `endpoint`, because the peer has a new incarnation.  on_lost runs before the first
/// message of the new connection, which may use the same endpoint.
void Daemon::end_former_connection(opal::am::Endpoint& endpoint) {
  const auto entry = connections_.extract(&endpoint);  // destroyed after on_lost
  if (opal::am::Endpoint* const upgrade = entry.mapped()->upgrade()) {
    by_upgrade_.erase(upgrade);
    disconnect_later(*upgrade);
  }
  host_.on_lost(endpoint, {Errc::peer_gone, 0, "oob: the peer has made its connection anew"});
}

void Daemon::receive(Connection& connection, opal::am::Endpoint& from, ByteSpan piece) {
  const auto message = connection.receive(from, piece);
  after_use(connection);
  if (!message) {
    host_.say(fmt::format("a message of another daemon is dropped: {}", opal::to_string(message.error())));
    return;
  }
  if (*message == nullptr || (*message)->topic < Topic::user) return;
  host_.on_message(connection.first(), (*message)->topic, connection.stream().take(**message));
}

// --- Ends

/// Schedules step(), which finds out whether the peer is lost.  Runs inside progress().
void Daemon::on_peer_failed(opal::am::Endpoint& endpoint, const Error& /*why*/) noexcept {
  const bool upgrade = upgrade_.context != nullptr && &endpoint.context() == upgrade_.context.get();
  if (upgrade && !by_upgrade_.contains(&endpoint)) return disconnect_later(endpoint);
  step_ = true;
  post_service();
}

}  // namespace runtime::oob
