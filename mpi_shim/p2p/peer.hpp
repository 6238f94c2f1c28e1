// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/peer.hpp — the protocol state of one process of the job in one VCI: its endpoint, its eager limits, its
// unexpected-message credit.  Owned by the Vci; its address is stable.  Threads: under the Context's lock.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "opal/am/endpoint.hpp"

namespace mpi_shim::p2p {

struct Peer {
  int process = 0;                   ///< number of the process in the job
  am::Endpoint* endpoint = nullptr;  ///< null until the first message to or from it
  /// The fast path (Engine::send_at_once) sends messages of fewer bytes.  0: no connection, or earlier messages wait
  /// for the transport; so the fast path needs one comparison.
  std::uint64_t eager_below = 0;
  std::uint64_t eager_below_when_free = 0;  ///< value of eager_below while no earlier message waits
  /// The limit of a Send while `offered` is not 0.  It is higher: in a stream of messages throughput counts, and one
  /// more copy costs less than an offer and its answers.
  std::uint64_t eager_below_in_stream = 0;
  std::uint32_t offered = 0;       ///< sends to the peer by rendezvous that are offered and not done
  std::uint32_t waiting = 0;       ///< first messages to the peer that wait for the transport
  std::uint64_t full_in_pass = 0;  ///< the last Engine::pass_ in which the transport to the peer was full
  bool failed = false;
  bool pays_per_call = false;  ///< its transport makes a system call, or rings a doorbell, for each message: see Burst

  // Unexpected-message credit, as sums of cost() since the connection.  Each sender has mpi_p2p_unexpected_limit bytes
  // of it at each target.  An eager message consumes its cost() until the message is received; the target announces
  // that to the sender (kCredit) after each quarter of the limit.  A sender without credit uses a rendezvous even for
  // small messages.  Order and matching do not change; a blocking send then waits for its receive, and an unexpected
  // message occupies only its envelope at the target.
  std::uint64_t sent = 0;       ///< of eager messages to the peer
  std::uint64_t may_send = 0;   ///< the limit of `sent`
  std::uint64_t received = 0;   ///< of eager messages from the peer that a receive has taken
  std::uint64_t announced = 0;  ///< the value of `received` that this process last sent to the peer
  /// The credit that one eager message consumes, in bytes: its data and the memory of its record.
  static constexpr std::uint64_t cost(std::uint64_t bytes) noexcept { return bytes + 256; }
};

}  // namespace mpi_shim::p2p
