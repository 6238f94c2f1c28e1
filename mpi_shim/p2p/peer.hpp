// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/peer.hpp — one process as the protocols see it: its endpoint, once there is one, and what holds it up.
// Owned by the PeerTable; its address is stable.  Threads: under the Context's lock.
#pragma once
#include <cstdint>

#include "mpi_shim/core/names.hpp"
#include "opal/am/endpoint.hpp"

namespace mpi_shim::p2p {

struct Peer {
  int process = 0;                   ///< number of the process in the job
  am::Endpoint* endpoint = nullptr;  ///< null until the first message to or from it
  /// Messages of fewer bytes may go out at once as one active message.  0 before the connection and while earlier
  /// messages wait, so that the fast path needs one comparison.
  std::uint64_t eager_below = 0;
  std::uint64_t eager_below_when_free = 0;  ///< what eager_below returns to
  std::uint32_t waiting = 0;                ///< first messages that the transport could not take yet
  std::uint64_t full_in_pass = 0;           ///< the last progress pass in which the transport was full
  bool failed = false;
};

}  // namespace mpi_shim::p2p
