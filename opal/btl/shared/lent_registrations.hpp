// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/lent_registrations.hpp — the owner's side of an address space behind a device whose handles cover
// single ranges.  A peer that wants to move a piece asks; if the piece is mapped with these rights and not excluded, it
// is registered with the device (through the module's cache, which evicts what is idle), and lent until the peer gives
// it back.  So however much is mapped, only what is moving has to be registered, and nothing that moves is evicted.
// Where the device has no room or refuses the memory, the answer is not_supported: the peer then moves it by messages.
// Owned by its module.  Threads: as the module.  Peer bytes are checked before any use.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "opal/btl/delivery.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/rdma_replies.hpp"
#include "opal/core/result.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {

class Endpoint;
class Module;

class LentRegistrations {
 public:
  static constexpr std::size_t kMostPerPeer = 64;  ///< lent at a time; more are moved by messages

  LentRegistrations(Module& module, RdmaReplies& replies) noexcept : module_(module), replies_(replies) {}

  void on_request(Delivery& delivery) noexcept;
  void on_return(Delivery& delivery) noexcept;

  /// Takes back everything that was lent to it.
  void endpoint_gone(Endpoint& endpoint) noexcept;
  [[nodiscard]] std::size_t lent() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    const Endpoint* to = nullptr;  // null: free
    std::uint32_t generation = 0;
    rcache::Lease lease;
  };

  [[nodiscard]] Result<rcache::Lease> lend(std::size_t already_lent, const wire::LendRequest& request,
                                           ByteSpan handle) noexcept;
  void take_back(Slot& slot) noexcept;

  Module& module_;
  RdmaReplies& replies_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<const Endpoint*, std::size_t> lent_;  // to each peer
};

}  // namespace opal::btl
