// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/peer.hpp — one process as the protocols see it: its endpoint, once there is one, and what holds it up.
// Owned by the PeerTable; its address is stable.  Threads: under the Context's lock.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "opal/am/endpoint.hpp"

namespace mpi_shim::p2p {

struct Peer {
  int process = 0;                   ///< number of the process in the job
  am::Endpoint* endpoint = nullptr;  ///< null until the first message to or from it
  /// Messages of fewer bytes may go out at once as one active message.  0 before the connection and while earlier
  /// messages wait, so that the fast path needs one comparison.
  std::uint64_t eager_below = 0;
  std::uint64_t eager_below_when_free = 0;  ///< what eager_below returns to
  /// The same while offers to it wait to be fetched: in a stream what counts is how many are done in a time, and there
  /// one copy more costs less than an offer and its answers.
  std::uint64_t eager_below_in_stream = 0;
  std::uint32_t offered = 0;       ///< sends whose data it has been offered and not fetched yet
  std::uint32_t waiting = 0;       ///< first messages that the transport could not take yet
  std::uint64_t full_in_pass = 0;  ///< the last progress pass in which the transport was full
  bool failed = false;

  // Credit (credit.cpp): messages that may have to wait at their target take from it until they are received
  // there; without it a sender offers its data instead of sending it.
  std::uint64_t sent = 0;       ///< taken for eager messages to it, ever
  std::uint64_t may_send = 0;   ///< what `sent` must not exceed
  std::uint64_t received = 0;   ///< the same for eager messages from it that left our memory
  std::uint64_t announced = 0;  ///< how much of that it knows of
  /// What one eager message takes: its bytes and the memory that remembers it.
  static constexpr std::uint64_t cost(std::uint64_t bytes) noexcept { return bytes + 256; }
};

}  // namespace mpi_shim::p2p
