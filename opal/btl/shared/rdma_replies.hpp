// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_replies.hpp — the target's answers to emulated puts and atomics, and its refusals: sent at once, or
// when the transport has room.  Bounded per peer.  Owned by the module's emulation.  Threads: as the module.
#pragma once
#include <cstddef>
#include <deque>
#include <unordered_map>

#include "opal/btl/shared/rdma_wire.hpp"

namespace opal::btl {

class Endpoint;
class Module;

class RdmaReplies {
 public:
  explicit RdmaReplies(Module& module) noexcept : module_(module) {}

  void send(Endpoint& to, const wire::Reply& reply) noexcept;
  /// Sends what waits; returns how many went out.
  std::size_t progress() noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  void endpoint_gone(Endpoint& endpoint) noexcept { waiting_.erase(&endpoint); }

 private:
  Module& module_;
  std::unordered_map<Endpoint*, std::deque<wire::Reply>> waiting_;  // none is empty
};

}  // namespace opal::btl
