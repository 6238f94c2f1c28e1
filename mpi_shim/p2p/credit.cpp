// SPDX-License-Identifier: Apache-2.0
// Unexpected-message credit.  Each sender has credit at each target (mpi_p2p_unexpected_limit): an eager message
// takes its cost out of it, and the target gives it back when the message is received, telling the sender each time a
// quarter of the credit has come together.  A sender without credit offers even small messages by a rendezvous:
// order and matching stay as they are, a blocking send then waits for its receive, and what an unreceived message
// costs the target is its envelope only.
#include <algorithm>

#include "mpi_shim/p2p/engine.hpp"

namespace mpi_shim::p2p {

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

}  // namespace mpi_shim::p2p
