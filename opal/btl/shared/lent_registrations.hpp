// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/lent_registrations.hpp — the target's side of a memory handle that covers more than the device
// registers at once: the whole address space, or a range longer than a chunk.
// * A peer requests a registration for each piece that it moves.  If the address-space handle allows the access, the
//   range is registered with the device through the module's registration cache.
// * The peer receives the device's handle.  It is lent: a lease keeps it registered until the peer returns it.
//   So memory that is being transferred is not evicted.  Later the cache may keep or evict it.
// * If the device cannot register the range, the answer is not_supported.  The peer then moves the piece by messages.
// Owned by the module's PipelinedTransfers.  Threads: as the module.  Bytes of peers are checked before any use.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "opal/btl/delivery.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/rdma_replies.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl {

class Endpoint;
class Module;

class LentRegistrations {
 public:
  static constexpr std::size_t kMostPerPeer = 64;  ///< registrations lent to one peer at a time; more get not_supported

  LentRegistrations(Module& module, RdmaReplies& replies) noexcept : module_(module), replies_(replies) {}

  /// Handler of LendRequest: answers with Lent.
  void on_request(Delivery& delivery) noexcept;
  /// Handler of LentReturn: ends the lease.  An unknown number has no effect.
  void on_return(Delivery& delivery) noexcept;

  /// Ends all leases of the peer of `endpoint`.
  void endpoint_gone(Endpoint& endpoint) noexcept { lent_.erase(&endpoint); }
  /// Registrations lent now, to all peers.
  [[nodiscard]] OPAL_EXPORT std::size_t lent() const noexcept;

 private:
  [[nodiscard]] Result<rcache::Lease> lend(std::size_t already_lent, const wire::LendRequest& request,
                                           ByteSpan handle) noexcept;

  Module& module_;
  RdmaReplies& replies_;
  using Leases = std::unordered_map<std::uint64_t, rcache::Lease>;  // by Lent::name
  std::unordered_map<const Endpoint*, Leases> lent_;                // by peer
  std::uint64_t last_name_ = 0;
};

}  // namespace opal::btl
