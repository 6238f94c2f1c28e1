// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/helped_state.hpp — the private state of an endpoint's helped transfers: those of this
// process that wait or run, and the one of the peer that this process helps with.  helped_ring.hpp has the shared
// memory.  Owned by the endpoint.  Threads: as the module.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "opal/btl/post.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "opal/btl/sm/helped/state/mode_times.hpp"
#include "opal/btl/sm/helped/state/transfer_mode.hpp"
#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/error.hpp"

namespace opal::btl::sm {

/// A transfer that this process has posted.
struct HelpedTransfer {
  RdmaOperation* operation = nullptr;  ///< in the module's table, until the transfer ends
  RemoteRange remote{};                ///< the target's memory
  TransferMode mode = TransferMode::pipelined;
  bool streamed = false;  ///< posted while another transfer ran, or without a progress call since the last one
  bool measured = false;  ///< its duration counts in HelpedState::times

  [[nodiscard]] std::byte* local() const noexcept { return operation->local; }
  [[nodiscard]] bool is_put() const noexcept { return operation->is_put(); }
  [[nodiscard]] Rights wanted() const noexcept { return is_put() ? Rights::remote_write : Rights::remote_read; }
};

/// The repetition of a transfer by messages, after the last copy mechanism has stopped working in the middle of it.
struct ByMessages : Completion {
  enum class Step : std::uint8_t { unused, due, in_flight, ended };

  ByMessages() : Completion{[](Completion& self) noexcept { static_cast<ByMessages&>(self).step = Step::ended; }, {}} {}
  Step step = Step::unused;  ///< due: it is posted when the target copies no more
};

/// The transfers of this process with one peer.  One runs at a time, in the order of the posts.
struct InitiatorState {
  static constexpr std::uint32_t kTransfersPerProbe = 8;
  static constexpr std::uint32_t kMost = 64;  ///< transfers that wait or run; further ones are copied without help

  InitiatorState(HelpedRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  InitiatorSide ring;
  std::uint32_t line;  ///< offset of the ring in this side's segment, in cache lines
  std::array<HelpedTransfer, kMost> transfers{};
  std::uint32_t first = 0;  ///< index of the running transfer
  std::uint32_t count = 0;  ///< transfers that wait or run
  /// False from when no piece has come in time, or for a whole put, until the next piece.  Meanwhile no transfer waits
  /// for a piece, and only one of kTransfersPerProbe asks the target, which computes.
  bool target_helps = true;
  std::uint32_t unasked = 0;  ///< transfers since target_helps became false, modulo 2^32

  // State of the running transfer.
  bool requested = false;           ///< the HelpRequest was sent
  bool attended = true;             ///< progress() was called all the time, so the duration is that of the copies
  std::uint64_t begin_ns = 0;       ///< of the transfer, as now_ns()
  std::uint64_t advanced_ns = 0;    ///< end of the last call of HelpedInitiator::advance()
  std::uint32_t share = 0;          ///< maximum of units to take next by single copy
  std::uint64_t last_moved_ns = 0;  ///< time of the last copied piece, as now_ns()
  ByMessages by_messages{};
  Error error{};  ///< of a failed copy; the completion reports it when nothing is in flight

  [[nodiscard]] HelpedTransfer& running() noexcept { return transfers[first]; }
  void pop() noexcept {
    first = (first + 1) % kMost;
    --count;
  }
};

/// The transfer of the peer that this process helps with.
struct TargetState {
  TargetState(HelpedRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  TargetSide ring;
  std::uint32_t line;           ///< offset of the ring in the peer's segment, in cache lines
  bool active = false;          ///< units may be left to take
  wire::HelpRequest request{};  ///< a checked copy

  [[nodiscard]] bool is_put() const noexcept { return request.put == 1; }
};

/// Each half is null until its first helped transfer.
struct HelpedState {
  ModeTimes times;  ///< of gets of the peer's private memory
  std::unique_ptr<InitiatorState> initiator;
  std::unique_ptr<TargetState> target;
  std::uint32_t last_post = 0;  ///< FastBoxes::progress_calls() when a transfer of this size was posted last

  /// Whether the next transfer asks the target for help.
  bool asks_target() noexcept {
    return initiator == nullptr || initiator->target_helps ||
           ++initiator->unasked % InitiatorState::kTransfersPerProbe == 0;
  }
};

/// Maximum of units that one side takes at a time by single copy, so that neither waits long for the other's last
/// piece.
inline constexpr std::uint32_t kMostShare = 64;
/// Maximum of pieces per peer and progress call, so that one peer does not delay others.
inline constexpr int kPiecesPerProgress = 16;

inline std::uint64_t offset_of(std::uint32_t unit) noexcept { return unit * wire::kHelpUnit; }
/// Bytes of a range; the last unit may be a part.
inline std::uint64_t bytes_of_units(const UnitRange& range, std::uint64_t size) noexcept {
  return std::min(offset_of(range.first + range.count), size) - offset_of(range.first);
}

}  // namespace opal::btl::sm
