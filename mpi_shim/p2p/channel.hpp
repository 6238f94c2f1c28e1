// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/channel.hpp — one matching context among the processes of a communicator.  A communicator has two, one
// for the program's messages and one for collectives, so that these never match each other.
// Owned by its communicator; the Engine borrows it from open_channel() to close_channel().
// Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <span>

#include "mpi_shim/match/matcher.hpp"
#include "mpi_shim/p2p/peer.hpp"

namespace mpi_shim::p2p {

struct Channel {
  std::uint32_t context = 0;     ///< the context number, the same in every process of the communicator
  int rank = 0;                  ///< this process's rank in the channel, as senders put it into messages
  std::span<Peer* const> peers;  ///< by rank; an intercommunicator's user channel has the remote group's processes
  bool has_self = true;          ///< `peers` contains this process; false: an intercommunicator's user channel
  match::Matcher matcher;
  std::uint32_t users =
      0;  ///< requests, matched messages, schedules and duplications that use it; under the lock of the engine
  bool collective = false;  ///< of collectives: a tag >= 0 belongs to an operation of all its processes
  bool broken = false;      ///< of collectives: one of its processes has failed

  /// Whether operations with `tag` end with an error.  A collective of all processes cannot complete once one of them
  /// has failed, and living peers may have left it as well.
  [[nodiscard]] bool gives_up(int tag) const noexcept { return broken && tag >= 0; }
};

}  // namespace mpi_shim::p2p
