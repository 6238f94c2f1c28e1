// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/helped_target.hpp — the target's half of helped transfers: copies pieces of large puts and gets
// that peers have posted on memory of this process (helped_ring.hpp).  Owned by the module.  Threads: as the module.
#pragma once
#include <algorithm>
#include <vector>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/sm/connections/endpoint.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"

namespace opal::btl::sm {

class HelpedTarget {
 public:
  HelpedTarget(const RegistrationTable& registrations, MessagePeers& peers) noexcept
      : registrations_(registrations), peers_(peers) {}

  /// Handles a HelpRequest: starts to copy.  An invalid request fails the peer.
  void on_request(Endpoint& peer, ByteSpan message) noexcept;

  [[nodiscard]] bool is_active() const noexcept { return !active_.empty(); }
  /// Copies pieces, at most kPiecesPerProgress per peer.  Returns the number of peers that got a piece or a refusal.
  std::size_t progress() noexcept;
  /// True when progress() can do something now.
  [[nodiscard]] bool has_work() const noexcept {
    return std::ranges::any_of(active_, [](const Endpoint* peer) { return peer->helped.target->ring.can_go_on(); });
  }
  /// Ends the help for a peer; its initiator copies the units that are left.
  void abandon(Endpoint& endpoint) noexcept;

 private:
  bool copy_pieces(Endpoint& peer) noexcept;
  bool copy_next(Endpoint& peer, bool& published) noexcept;
  [[nodiscard]] bool is_allowed(const TargetState& state) const noexcept;
  static bool copy_in_place(Endpoint& peer, std::byte* bytes, const RemoteRange& place) noexcept;

  const RegistrationTable& registrations_;
  MessagePeers& peers_;
  std::vector<Endpoint*> active_;  // peers with a transfer that this side helps with
};

}  // namespace opal::btl::sm
