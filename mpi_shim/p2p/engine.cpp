// SPDX-License-Identifier: Apache-2.0
// The Engine's life, its channels and the start of operations; handlers.cpp has what peers send, progress.cpp the loop.
#include "mpi_shim/p2p/engine.hpp"

#include <algorithm>

#include "opal/core/log.hpp"

namespace mpi_shim::p2p {
namespace {

// A transport with this latency or more pays for each call of the network.  Shared memory has 100 ns.
constexpr std::uint64_t kLatencyOfNetworks = 1000;

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(am::Context& context, Connector& connector, const Config& config,
                                             bool core_is_shared) {
  std::unique_ptr<Engine> engine{new Engine{context, connector, config, core_is_shared}};
  OPAL_TRY(engine->install());
  return engine;
}

Engine::Engine(am::Context& context, Connector& connector, const Config& config, bool core_is_shared)
    : context_(context),
      connector_(connector),
      lock_(context.lock()),
      config_(config),
      core_is_shared_(core_is_shared),
      burst_(context),
      announce_after_(config.unexpected_limit.bytes / 4) {
  spare_.reserve(kMostSpare);
}

Result<void> Engine::install() {
  OPAL_TRY(context_.set_handler(wire::kEager, btl::bind<&Engine::on_eager>(*this, "mpi eager message")));
  for (const Tag tag : {wire::kRendezvous, wire::kFailure}) {
    OPAL_TRY(context_.set_handler(tag, btl::bind<&Engine::on_first_message>(*this, "mpi message")));
  }
  OPAL_TRY(context_.set_handler(wire::kCancel, btl::bind<&Engine::on_cancel>(*this, "mpi cancel")));
  OPAL_TRY(context_.set_handler(wire::kCancelled, btl::bind<&Engine::on_cancelled>(*this, "mpi cancelled")));
  OPAL_TRY(context_.set_handler(wire::kClearToSend, btl::bind<&Engine::on_clear_to_send>(*this, "mpi clear to send")));
  OPAL_TRY(context_.set_handler(wire::kData, (btl::bind<&Engine::on_data, &Engine::place_data>(*this, "mpi data"))));
  OPAL_TRY(context_.set_handler(wire::kCredit, btl::bind<&Engine::on_credit>(*this, "mpi credit")));
  OPAL_TRY(context_.set_handler(wire::kWake, btl::bind<&Engine::on_wake>(*this, "mpi wake")));
  return context_.set_handler(wire::kFinished, btl::bind<&Engine::on_finished>(*this, "mpi finished"));
}

Engine::~Engine() {
  for (Tag tag = wire::kEager; tag <= wire::kCancelled; ++tag) context_.clear_handler(tag);
}

void Engine::open_channel(Channel& channel) {
  const am::Lock::Guard guard{lock_};
  if (channels_.size() <= channel.context) channels_.resize(channel.context + std::size_t{1});
  channels_[channel.context] = &channel;
  channel.broken = channel.collective && std::any_of(channel.peers.begin(), channel.peers.end(),
                                                     [](const Peer* peer) { return peer->failed; });
  std::vector<std::unique_ptr<Unexpected>> others;
  for (std::unique_ptr<Unexpected>& message : early_) {
    if (message->message.match.context != channel.context) {
      others.push_back(std::move(message));
    } else if (belongs(channel, message->message.match.source, *message->message.from)) {
      channel.matcher.add(*message.release());  // nothing can be posted on it yet; the matcher's until adopt()
    }
  }
  early_ = std::move(others);
}

void Engine::close_channel(Channel& channel) noexcept {
  const am::Lock::Guard guard{lock_};
  channels_[channel.context] = nullptr;
  channel.matcher.for_each_unexpected([&](match::Unexpected& message) {
    channel.matcher.remove(message);
    adopt(&message);  // and destroys it: no receive can match it
  });
}

int Engine::reach(Peer& peer) noexcept {
  if (peer.failed) [[unlikely]]
    return MPI_ERR_PROC_ABORTED;
  if (peer.endpoint != nullptr) [[likely]]
    return MPI_SUCCESS;
  const auto endpoint = connector_.connect(peer.process);
  if (!endpoint) {
    log::error("mpi", "cannot reach process {}: {}", peer.process, to_string(endpoint.error()));
    peer_failed(peer, endpoint.error());  // receives from it could not complete
    return endpoint.error().code == Errc::peer_gone ? MPI_ERR_PROC_ABORTED : MPI_ERR_OTHER;
  }
  set_endpoint(peer, **endpoint);
  return MPI_SUCCESS;
}

void Engine::set_endpoint(Peer& peer, am::Endpoint& endpoint) noexcept {
  peer.endpoint = &endpoint;
  endpoint.upper = &peer;
  const btl::Attributes& limits = endpoint.attributes();
  const std::uint64_t asked = config_.eager_limit.bytes != 0 ? config_.eager_limit.bytes : limits.eager;
  const std::uint64_t carried = limits.max_send - sizeof(wire::MatchHeader);
  peer.eager_below_when_free = std::min(asked, carried) + 1;
  const std::uint64_t in_stream = config_.eager_limit.bytes != 0 ? asked : 2 * asked;
  peer.eager_below_in_stream = std::min(in_stream, carried) + 1;
  peer.eager_below = peer.waiting == 0 ? peer.eager_below_when_free : 0;
  peer.may_send = config_.unexpected_limit.bytes;
  peer.pays_per_call = limits.latency_ns >= kLatencyOfNetworks;
}

int Engine::send_slowly(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode) {
  Send& send = new_send(channel, buffer, destination, tag, mode);
  send.start();
  wait(send);
  const int error = send.outcome().error;
  send.put_back();
  return error;
}

Outcome Engine::receive(Channel& channel, const Buffer& buffer, int source, int tag) {
  Receive& receive = new_receive(channel, buffer, source, tag);
  receive.begin_receiving();
  wait(receive);
  const Outcome outcome = receive.outcome();
  receive.put_away();
  return outcome;
}

Send& Engine::new_send(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode) {
  const am::Lock::Guard guard{lock_};
  Send& send = sends_.take(*this);
  send.channel_ = &channel;
  ++channel.users;
  send.peer_ = channel.peers[static_cast<std::size_t>(destination)];
  send.buffer_ = buffer;
  if (buffer.has_derived_type()) send.type_ = buffer.share_type();
  send.tag_ = tag;
  send.mode_ = mode;
  return send;
}

Receive& Engine::new_receive(Channel& channel, const Buffer& buffer, int source, int tag) {
  const am::Lock::Guard guard{lock_};
  Receive& receive = receives_.take(*this);
  receive.channel_ = &channel;
  ++channel.users;
  receive.buffer_ = buffer;
  if (buffer.has_derived_type()) receive.type_ = buffer.share_type();
  receive.wanted = {source, tag};
  return receive;
}

namespace {

void describe(const Incoming& message, Outcome& outcome) noexcept {
  outcome.source = message.match.source;
  outcome.tag = message.match.tag;
  outcome.bytes = message.size;
}

}  // namespace

bool Engine::probe(Channel& channel, int source, int tag, Outcome& outcome) noexcept {
  const am::Lock::Guard guard{lock_};
  const match::Unexpected* message = channel.matcher.probe({source, tag});
  if (message == nullptr) return false;
  describe(static_cast<const Unexpected*>(message)->message, outcome);
  return true;
}

std::unique_ptr<Unexpected> Engine::take(Channel& channel, int source, int tag, Outcome& outcome) noexcept {
  const am::Lock::Guard guard{lock_};
  std::unique_ptr<Unexpected> message = adopt(channel.matcher.take({source, tag}));
  if (message != nullptr) describe(message->message, outcome);
  return message;
}

bool Engine::has_pending(const Channel& channel) const noexcept {
  const am::Lock::Guard guard{lock_};
  const auto pending = [&](const auto& request) {
    return request.channel_ == &channel && request.active() && !request.done();
  };
  return sends_.any(pending) || receives_.any(pending);
}

Unexpected& Engine::new_unexpected(const Incoming& message) {
  if (spare_.empty()) return *std::make_unique<Unexpected>(message).release();
  Unexpected& again = *spare_.back().release();
  spare_.pop_back();
  again.assign(message);
  return again;
}

void Engine::keep(std::unique_ptr<Unexpected> received) noexcept {
  if (spare_.size() < kMostSpare && !received->is_large()) spare_.push_back(std::move(received));
}

std::unique_ptr<Unexpected> Engine::adopt(match::Unexpected* message) noexcept {
  std::unique_ptr<Unexpected> owned{static_cast<Unexpected*>(message)};
  if (owned != nullptr) note_received(*static_cast<Peer*>(owned->message.from->upper), owned->message);
  return owned;
}

}  // namespace mpi_shim::p2p
