// SPDX-License-Identifier: Apache-2.0
// Unexpected-message credit: each sender has mpi_p2p_unexpected_limit bytes of it at each target.  An eager message
// consumes its Peer::cost().  The target returns the credit when the message is received, and announces it to the
// sender (kCredit) after each quarter of the limit.  A sender without credit uses a rendezvous even for small messages.
// Order and matching do not change; a blocking send then waits for its receive, and an unexpected message occupies only
// its envelope at the target.
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
