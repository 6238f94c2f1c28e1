// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/daemon.hpp"

#include <fmt/format.h>

namespace runtime::oob {
namespace {

constexpr int kRoundsPerTurn = 64;              // of progress, before other events of the loop get their turn
constexpr std::chrono::milliseconds kRetry{1};  // a peer that takes nothing now does not announce when it will

}  // namespace

struct Daemon::Peer {
  explicit Peer(opal::am::Endpoint& to) : endpoint(to), sender(to) {}
  opal::am::Endpoint& endpoint;
  Sender sender;
  Assembler assembler;
  int rank = -1;  // until its hello
};

Daemon::Daemon(event::Loop& loop, std::string job_id, unsigned ranks, DaemonHost host)
    : loop_(loop), job_id_(std::move(job_id)), ranks_(ranks), host_(std::move(host)), log_(loop, ranks, host_.say) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::open(event::Loop& loop, const opal::config::Store& store,
                                             const opal::Secret& secret, std::string job_id, unsigned ranks,
                                             DaemonHost host) {
  std::unique_ptr<Daemon> daemon{new Daemon{loop, std::move(job_id), ranks, std::move(host)}};
  opal::am::Options options;
  options.observer = daemon.get();
  options.secret = secret;
  OPAL_TRY_ASSIGN(daemon->context_, opal::am::Context::open(store, options));
  OPAL_TRY(
      daemon->context_->set_handler(kActiveMessageTag, opal::btl::bind<&Daemon::on_piece>(*daemon, "runtime oob")));
  daemon->readable_ = loop.on_readable(daemon->context_->fd(), [self = daemon.get()] { self->service(); });
  loop.post([self = daemon.get()] { self->service(); });  // arms the descriptor
  return daemon;
}

std::string Daemon::address_text() const { return to_hex(context_->address()); }

Result<void> Daemon::send(unsigned rank, Topic topic, ByteSpan content) {
  const auto peer = by_rank_.find(rank);
  if (peer == by_rank_.end()) return Error{Errc::unreachable, 0, "oob: this rank has not said hello", rank};
  OPAL_TRY(peer->second->sender.send(topic, content));
  if (!peer->second->sender.idle()) advance();
  return {};
}

Result<opal::am::Endpoint*> Daemon::connect(ByteSpan address) {
  OPAL_TRY_ASSIGN(opal::am::Endpoint * endpoint, context_->connect(address));
  (void)peer_of(*endpoint);
  return endpoint;
}

Result<void> Daemon::send(opal::am::Endpoint& to, Topic topic, ByteSpan content) {
  Peer& peer = peer_of(to);
  OPAL_TRY(peer.sender.send(topic, content));
  if (!peer.sender.idle() && !retry_) retry_ = loop_.after(kRetry, [this] { advance(); });
  kick();
  return {};
}

void Daemon::disconnect(opal::am::Endpoint& peer) {
  peers_.erase(&peer);
  context_->disconnect(peer);
}

bool Daemon::has_unsent(opal::am::Endpoint& to) { return !peer_of(to).sender.idle(); }

/// What was posted outside of progress() goes out with the next one, which nothing else may wake.
void Daemon::kick() {
  if (kicked_) return;
  kicked_ = true;
  loop_.post([this] {
    kicked_ = false;
    service();
  });
}

void Daemon::finish() {
  service();
  log_.flush();
}

void Daemon::service() {
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    if (context_->progress() == 0 && context_->arm()) return;
  }
  loop_.post([this] { service(); });
}

/// Sends what peers did not take before, as long as there is some.
void Daemon::advance() {
  bool waiting = false;
  for (const auto& [endpoint, peer] : peers_) {
    if (peer->sender.idle()) continue;
    const auto done = peer->sender.advance();
    waiting = waiting || (done && !*done);
  }
  retry_ = waiting ? loop_.after(kRetry, [this] { advance(); }) : event::Timer{};
}

Daemon::Peer& Daemon::peer_of(opal::am::Endpoint& endpoint) {
  std::unique_ptr<Peer>& peer = peers_[&endpoint];
  if (!peer) peer = std::make_unique<Peer>(endpoint);
  return *peer;
}

void Daemon::on_piece(opal::btl::Delivery& delivery) noexcept {
  Peer& peer = peer_of(opal::am::sender(delivery));
  const auto message = peer.assembler.add(delivery.data);
  if (!message) {
    host_.say(fmt::format("a message of {} is dropped: {}",
                          peer.rank < 0 ? "an unknown process" : fmt::format("rank {}", peer.rank),
                          opal::to_string(message.error())));
    return;
  }
  if (*message != nullptr) handle(peer, (*message)->topic, (*message)->content);
}

void Daemon::handle(Peer& peer, Topic topic, ByteSpan content) {
  if (topic == Topic::hello) return greet(peer, content);
  if (peer.rank < 0 && topic >= Topic::user && host_.on_daemon_message) {
    return host_.on_daemon_message(peer.endpoint, topic, content);
  }
  if (peer.rank < 0) return send_to(peer, Topic::refused, as_bytes("say hello first"));
  switch (topic) {
    case Topic::echo: return send_to(peer, Topic::echo_reply, content);
    case Topic::log: return log_.add(static_cast<unsigned>(peer.rank), as_text(content));
    case Topic::abort: {
      std::int32_t status = 0;
      if (!opal::read_object(content, status)) return;
      return host_.on_abort(peer.rank, status, std::string{as_text(content.subspan(sizeof status))});
    }
    default:
      if (topic >= Topic::user) host_.on_message(static_cast<unsigned>(peer.rank), topic, content);
      return;
  }
}

void Daemon::greet(Peer& peer, ByteSpan content) {
  Hello hello{};
  if (!opal::read_object(content, hello)) return send_to(peer, Topic::refused, as_bytes("hello too short"));
  if (as_text(content.subspan(sizeof hello)) != job_id_) {
    return send_to(peer, Topic::refused, as_bytes("that is another job"));
  }
  if (hello.rank >= ranks_) return send_to(peer, Topic::refused, as_bytes("no such rank in this job"));
  // A rank may leave and come back with a new Context; the newest one counts.
  if (peer.rank >= 0) by_rank_.erase(static_cast<unsigned>(peer.rank));
  peer.rank = static_cast<int>(hello.rank);
  by_rank_[hello.rank] = &peer;
  send_to(peer, Topic::welcome, {});
}

/// An answer; a peer that does not take its answers loses them, and nobody else anything.
void Daemon::send_to(Peer& peer, Topic topic, ByteSpan content) {
  if (!peer.sender.send(topic, content)) return;
  if (!peer.sender.idle() && !retry_) retry_ = loop_.after(kRetry, [this] { advance(); });
}

/// The job hears of dead ranks from the warden; here only the endpoint goes, and not from inside progress().
void Daemon::on_peer_failed(opal::am::Endpoint& endpoint, const Error& why) noexcept {
  loop_.post([this, &endpoint, why] { forget(endpoint, why); });
}

void Daemon::forget(opal::am::Endpoint& endpoint, const Error& why) {
  const auto entry = peers_.find(&endpoint);
  if (entry == peers_.end() || !endpoint.dead()) return;
  const int rank = entry->second->rank;
  if (rank >= 0) {
    const auto place = by_rank_.find(static_cast<unsigned>(rank));
    if (place != by_rank_.end() && place->second == entry->second.get()) by_rank_.erase(place);
  } else if (host_.on_daemon_lost) {
    host_.on_daemon_lost(endpoint, why);
  }
  peers_.erase(&endpoint);
  context_->disconnect(endpoint);
}

}  // namespace runtime::oob
