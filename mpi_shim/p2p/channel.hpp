// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/channel.hpp — one stream of matched messages among the processes of a communicator.  A communicator has
// one for the program's messages and one for collectives, so that they never match each other.
// Owned by its communicator; known to the Engine between open_channel() and close_channel().
// Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <span>

#include "mpi_shim/match/matcher.hpp"
#include "mpi_shim/p2p/peer.hpp"

namespace mpi_shim::p2p {

struct Channel {
  std::uint32_t context = 0;     ///< the same number in every process of the communicator
  int rank = 0;                  ///< this process's rank
  std::span<Peer* const> peers;  ///< by rank; of the remote group for an intercommunicator
  bool has_self = true;          ///< whether this process is one of them; not with an intercommunicator's user channel
  match::Matcher matcher;
  std::uint32_t users =
      0;  ///< requests, matched messages, schedules and duplications that use it; under the lock of the engine
  bool collective = false;  ///< tags that are not negative are of what all its processes do together
  bool broken = false;      ///< of collectives: one of its processes is gone

  /// What all processes do together ends without one of them everywhere: a living one, too, may have given it up.
  [[nodiscard]] bool gives_up(int tag) const noexcept { return broken && tag >= 0; }
};

}  // namespace mpi_shim::p2p
