// SPDX-License-Identifier: Apache-2.0
// The handlers of all messages of peers.  Each message is checked before it has an effect; an invalid one is dropped
// and logged as an error.
#include <algorithm>

#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::p2p {

bool Engine::belongs(Channel& channel, int source, am::Endpoint& from) noexcept {
  const auto rank = static_cast<std::uint32_t>(source);  // a negative one becomes larger than any rank
  return rank < channel.peers.size() && recognise(*channel.peers[rank], from);
}

bool Engine::recognise(Peer& peer, am::Endpoint& from) noexcept {
  if (from.upper == nullptr && peer.endpoint == nullptr) [[unlikely]]
    set_endpoint(peer, from);
  return from.upper == &peer;
}

/// The fast path for eager messages with a posted receive; on_first_message() handles all others.
void Engine::on_eager(btl::Delivery& delivery) noexcept {
  wire::MatchHeader header;
  if (read_object(delivery.data, header)) [[likely]] {
    am::Endpoint& from = am::sender(delivery);
    Channel* const channel = open_channel_of(header.context);
    if (channel != nullptr && belongs(*channel, header.source, from)) [[likely]] {
      if (match::PostedRecv* const posted = channel->matcher.arrive({header.source, header.tag})) {
        const ByteSpan data = delivery.data.subspan(sizeof header);
        note_received(*static_cast<Peer*>(from.upper), data.size());
        return static_cast<Receive*>(posted)->accept_eager(header.source, header.tag, data);
      }
    }
  }
  on_first_message(delivery);
}

void Engine::on_first_message(btl::Delivery& delivery) noexcept {
  Incoming message;
  if (!message.parse(delivery)) return refuse(delivery, "its header is garbled");
  const wire::MatchHeader& header = message.match;
  Channel* channel = open_channel_of(header.context);
  if (channel == nullptr) [[unlikely]] {
    // The sender has already created a communicator that this process is still creating.
    early_.push_back(std::make_unique<Unexpected>(message));
    return;
  }
  if (!belongs(*channel, header.source, *message.from)) [[unlikely]]
    return refuse(delivery, "it claims to come from another process");
  if (match::PostedRecv* posted = channel->matcher.arrive({header.source, header.tag})) {
    note_received(*static_cast<Peer*>(message.from->upper), message);
    return static_cast<Receive*>(posted)->accept(message);
  }
  channel->matcher.add(new_unexpected(message));  // the matcher's until adopt()
}

/// Reads an answer into `message` and returns its Send, which waits for this kind of answer (`awaits`) from this peer.
/// Null: the answer was invalid and is dropped.
template <class Message>
Send* Engine::find_send(const btl::Delivery& delivery, Message& message,
                        bool (Send::*awaits)() const noexcept) noexcept {
  if (!read_object(delivery.data, message)) return refuse(delivery, "it is too short"), nullptr;
  Send* const send = sending_.find(message.send_id);
  if (send == nullptr || send->peer_->endpoint != &am::sender(delivery)) {
    return refuse(delivery, "no such send"), nullptr;
  }
  if (!(send->*awaits)()) return refuse(delivery, "the send does not wait for that"), nullptr;
  return send;
}

void Engine::on_cancel(btl::Delivery& delivery) noexcept {
  wire::Cancel message{};
  if (!read_object(delivery.data, message)) return refuse(delivery, "it is too short");
  am::Endpoint& from = am::sender(delivery);
  const auto is_it = [&](const Incoming& queued) {
    return queued.kind != wire::kEager && queued.send_id == message.send_id && queued.from == &from;
  };
  bool found = false;
  if (Channel* channel = open_channel_of(message.context)) {
    channel->matcher.for_each_unexpected([&](match::Unexpected& queued) {
      if (!is_it(static_cast<Unexpected&>(queued).message)) return;
      found = channel->matcher.remove(queued);
      adopt(&queued);  // and destroys it
    });
  } else if (const auto early =
                 std::find_if(early_.begin(), early_.end(), [&](const auto& queued) { return is_it(queued->message); });
             early != early_.end()) {
    found = true;
    if (from.upper != nullptr) note_received(*static_cast<Peer*>(from.upper), (*early)->message);
    early_.erase(early);
  }
  if (found) send_control(from, wire::kCancelled, wire::Answer{message.send_id});
}

void Engine::on_cancelled(btl::Delivery& delivery) noexcept {
  wire::Answer message{};
  if (Send* const send = find_send(delivery, message, &Send::awaits_cancelled)) send->on_cancelled();
}

void Engine::on_clear_to_send(btl::Delivery& delivery) noexcept {
  wire::ClearToSend message{};
  if (Send* const send = find_send(delivery, message, &Send::awaits_fetch)) send->on_clear_to_send(message);
}

/// The receive that waits for the data of `header` from this sender; null: none.
Receive* Engine::find_receive(const wire::DataHeader& header, const btl::Endpoint& from) noexcept {
  Receive* const receive = receiving_.find(header.receive_id);
  return receive != nullptr && receive->from_ == from.upper ? receive : nullptr;
}

btl::Place Engine::place_data(btl::Endpoint& from, ByteSpan head, std::size_t size) noexcept {
  wire::DataHeader header{};
  if (!read_object(head, header)) return {};
  const Receive* const receive = find_receive(header, from);
  if (receive == nullptr || !receive->follows(header, size - sizeof header)) return {};
  return {receive->place_of_data(), sizeof header};
}

void Engine::on_data(btl::Delivery& delivery) noexcept {
  wire::DataHeader header{};
  if (!read_object(delivery.data, header)) return refuse(delivery, "it is too short");
  const ByteSpan data = delivery.data.subspan(sizeof header);
  Receive* const receive = find_receive(header, delivery.from);
  if (receive == nullptr) return refuse(delivery, "no such receive");
  if (!receive->follows(header, data.size() + delivery.placed)) {
    return refuse(delivery, "its data do not follow those before");
  }
  receive->on_data(data, delivery);
}

void Engine::on_finished(btl::Delivery& delivery) noexcept {
  wire::Answer message{};
  if (Send* const send = find_send(delivery, message, &Send::awaits_fetch)) send->end(MPI_SUCCESS);
}

void Engine::announce(Peer& peer) noexcept {
  peer.announced = peer.received;
  send_control(*peer.endpoint, wire::kCredit, wire::Credit{peer.received});
}

void Engine::on_credit(btl::Delivery& delivery) noexcept {
  wire::Credit message{};
  if (!read_object(delivery.data, message)) return refuse(delivery, "it is too short");
  auto* const peer = static_cast<Peer*>(am::sender(delivery).upper);
  if (peer == nullptr || message.received > peer->sent) return refuse(delivery, "nothing was sent that it received");
  peer->may_send = std::max(peer->may_send, message.received + config_.unexpected_limit.bytes);
}

void Engine::refuse(const btl::Delivery& delivery, const char* why) noexcept {
  log::error("mpi", "message with active-message tag {:#x} of {} bytes from peer {} dropped: {}", delivery.tag,
             delivery.data.size() + delivery.placed, to_string(delivery.from.peer()), why);
}

void Engine::send_control(am::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  burst_.end();  // MPI_Irecv may answer a message that waits here
  if (to.send_or_queue_any(tag, header, payload) == Post::failed && !to.dead()) {
    log::error("mpi", "a control message to peer {} is lost: {}", to_string(to.peer()), to_string(to.error()));
  }
}

}  // namespace mpi_shim::p2p
