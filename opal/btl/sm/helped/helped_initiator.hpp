// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/helped_initiator.hpp — the initiator's half of helped transfers: large puts and gets of this
// module that initiator and target copy together (helped_ring.hpp).  The initiator copies all units that the target
// does not.  Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/sm/connections/endpoint.hpp"
#include "opal/btl/sm/helped/state/transfer_mode.hpp"
#include "opal/btl/sm/messages/fast_boxes.hpp"
#include "opal/btl/sm/messages/message_peers.hpp"

namespace opal::btl::sm {

class HelpedInitiator {
 public:
  HelpedInitiator(const Config& config, const TransferModes& modes, bool cores_shared, const FastBoxes& progress,
                  MessagePeers& peers, RdmaEmulation& emulation, RdmaOperations& operations) noexcept
      : modes_(modes),
        least_helped_(modes.least_helped()),
        target_wait_ns_(static_cast<std::uint64_t>(config.pipeline_wait.count()) * 1000),
        cores_shared_(cores_shared),
        progress_(progress),
        peers_(peers),
        emulation_(emulation),
        operations_(operations) {}

  /// Starts a put or get if TransferModes chooses help for it.  `here` is the source, which is only read, or the
  /// destination.  True: `completion` runs later.  False: nothing has happened; the caller copies without help.
  [[nodiscard]] bool start(RdmaOperation::Kind kind, Endpoint& peer, std::byte* here, const Target& target,
                           Completion& completion) noexcept {
    return target.range.size >= least_helped_ && start_large(kind, peer, here, target, completion);
  }

  /// Copies without help, by single copy.  Records the time of a get that help might have made faster.
  [[nodiscard]] CopyOutcome copy_alone(RdmaOperation::Kind kind, Endpoint& peer, std::byte* here,
                                       const Target& target) noexcept {
    const bool put = kind == RdmaOperation::Kind::put;
    if (put || target.range.size < least_helped_) return peer.memory().move(target, here, put);
    return copy_large_alone(peer, here, target);
  }

  [[nodiscard]] bool is_active() const noexcept { return !active_.empty(); }
  /// Copies pieces of the running transfers and ends complete ones.  Returns the number of pieces and ended transfers.
  std::size_t progress() noexcept;
  /// True when progress() can do something now.
  [[nodiscard]] bool has_work() const noexcept;
  /// Ends all transfers with a peer with `why`.  Blocks until the peer does not access this process's memory for them,
  /// at most 10 s if the peer is stopped.
  void abandon(Endpoint& endpoint, const Error& why) noexcept;

 private:
  bool start_large(RdmaOperation::Kind kind, Endpoint& peer, std::byte* here, const Target& target,
                   Completion& completion) noexcept;
  static CopyOutcome copy_large_alone(Endpoint& peer, std::byte* here, const Target& target) noexcept;
  static InitiatorState* state_of(Endpoint& peer) noexcept;
  void start_next(Endpoint& peer) noexcept;
  void send_request(Endpoint& peer) noexcept;
  std::size_t advance(Endpoint& peer) noexcept;
  static void record_time(Endpoint& peer) noexcept;
  std::size_t take_pieces(Endpoint& peer) noexcept;
  [[nodiscard]] bool may_copy(Endpoint& peer) const noexcept;
  bool leaves_units_to_target(InitiatorState& state) const noexcept;
  std::size_t copy_share(Endpoint& peer) noexcept;
  bool finish(Endpoint& peer) noexcept;
  static void wait_for_target(Endpoint& peer) noexcept;

  const TransferModes modes_;
  const std::uint64_t least_helped_;
  const std::uint64_t target_wait_ns_;  // Config::pipeline_wait
  const bool cores_shared_;             // processes outnumber cores: the target may be waiting for this core
  const FastBoxes& progress_;           // counts the progress calls
  MessagePeers& peers_;
  RdmaEmulation& emulation_;
  RdmaOperations& operations_;     // of the module
  std::vector<Endpoint*> active_;  // peers with a running transfer
};

}  // namespace opal::btl::sm
