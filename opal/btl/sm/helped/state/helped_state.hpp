// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/helped_state.hpp — what an endpoint keeps of helped transfers: ours that wait or run, and
// the peer's that we help with.  helped_ring.hpp has the shared memory.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "opal/btl/sm/helped/state/transfer_mode.hpp"
#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/error.hpp"

namespace opal::btl::sm {

/// A transfer that this process has posted.
struct HelpedTransfer {
  std::byte* here = nullptr;  ///< our memory: of a get the destination, of a put the source, which is only read
  RemoteRange there{};
  RdmaOperation* operation = nullptr;  ///< in the module's table
  TransferMode mode = TransferMode::pipelined;
  bool streamed = false;  ///< posted with others, without progress in between

  [[nodiscard]] bool is_put() const noexcept { return operation->is_put(); }
  [[nodiscard]] Rights wanted() const noexcept { return is_put() ? Rights::remote_write : Rights::remote_read; }
};

/// Our transfers with one peer.  One runs at a time.
struct InitiatorState {
  static constexpr std::uint32_t kMost = 64;  ///< waiting or running; more are copied without help

  InitiatorState(HelpedRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  InitiatorSide ring;
  std::uint32_t line;  ///< of the ring in our segment
  std::array<HelpedTransfer, kMost> transfers{};
  std::uint32_t first = 0;  ///< the one that runs
  std::uint32_t count = 0;

  // Of the one that runs.
  bool requested = false;           ///< the peer knows of it
  std::uint32_t share = 0;          ///< units to take by single copy next, at most
  std::uint64_t last_moved_ns = 0;  ///< time of the last piece
  UnitRange left_over{};            ///< of a put: what no mechanism copies, so that messages have to
  Error error{};                    ///< why it fails, once nothing of it is in flight

  [[nodiscard]] HelpedTransfer& running() noexcept { return transfers[first]; }
  void pop() noexcept {
    first = (first + 1) % kMost;
    --count;
  }
};

/// The peer's transfer with which we help.
struct TargetState {
  TargetState(HelpedRing memory, std::uint32_t first_line) noexcept : ring(memory), line(first_line) {}

  TargetSide ring;
  std::uint32_t line;  ///< of the ring in the peer's segment
  bool active = false;
  bool put = false;  ///< we fetch what the peer puts; there are no chunks
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t destination = 0;  ///< in the peer's memory; 0: by chunks
  std::uint32_t least_share = 1;
  std::uint32_t pool = 0;  ///< of the peer, in which the destination lies
  SoftwareHandle region{};
};

/// Made at the first helped transfer.
struct HelpedState {
  std::unique_ptr<InitiatorState> initiator;
  std::unique_ptr<TargetState> target;
  std::uint32_t last_post = 0;  ///< number of the progress call before the last transfer that could be helped
};

/// Most units that one side takes at a time by single copy, so that neither waits long for the other's last piece.
inline constexpr std::uint32_t kMostShare = 64;
/// Most pieces of one peer in one progress call, so that others get their share.
inline constexpr int kPiecesPerProgress = 16;

inline std::uint64_t offset_of(std::uint32_t unit) noexcept { return unit * wire::kHelpUnit; }
/// Bytes of a range; the last unit may be a part.
inline std::uint64_t bytes_of_units(const UnitRange& range, std::uint64_t size) noexcept {
  return std::min(offset_of(range.first + range.count), size) - offset_of(range.first);
}

}  // namespace opal::btl::sm
