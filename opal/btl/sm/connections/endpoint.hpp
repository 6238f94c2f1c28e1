// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/endpoint.hpp — one local peer: messages in both directions, the connection, helped transfers.
// Its first cache lines hold the members that every send uses.  Owned by Connections.  Threads: as the module;
// send_beside() touches only the sending half.
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

  /// Progress of the connection's end; Connections alone changes it.
  struct Ending {
    bool draining = false;        ///< the peer has ended the connection; messages sent before are still received
    bool reported = false;        ///< Observer::on_failed has been called
    std::uint64_t last_item = 0;  ///< draining: position in this module's FIFO; the peer's items are all before it
    Error why{};                  ///< valid once draining or dead(): why the connection ends
  };
  Ending ending;
  HelpedState helped;

 private:
  std::unique_ptr<Link> link_;
};

}  // namespace opal::btl::sm
