// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/endpoint.hpp — one local peer: messages in both directions, the connection, helped transfers.
// The first lines hold what every send touches.  Owned by Connections.  Threads: as the module; send_beside() touches
// only the sending half.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "opal/btl/sm/connections/link.hpp"
#include "opal/btl/sm/helped/state/helped_state.hpp"
#include "opal/btl/sm/messages/message_peer.hpp"

namespace opal::btl::sm {

class Endpoint final : public MessagePeer {
 public:
  Endpoint(btl::Module& module, std::unique_ptr<Link> link, std::uint32_t sends_till_offer)
      : MessagePeer(module, link->peer, *link, sends_till_offer), link_(std::move(link)) {}

  [[nodiscard]] bool one_sided() const noexcept override { return link_->copy.usable(); }
  [[nodiscard]] std::string describe() const override;

  [[nodiscard]] Link& link() const noexcept { return *link_; }
  [[nodiscard]] RemoteMemory& memory() const noexcept { return *link_; }

  /// How far the end of the connection is; connections/connections.hpp uses it.
  struct Ending {
    bool draining = false;        ///< the peer has closed its end; messages that it sent before are still received
    bool reported = false;        ///< on_failed has been called
    std::uint64_t last_item = 0;  ///< draining: the position of our FIFO behind which there is nothing of it
    Error why{};
  };
  Ending ending;
  HelpedState helped;

 private:
  std::unique_ptr<Link> link_;
};

}  // namespace opal::btl::sm
