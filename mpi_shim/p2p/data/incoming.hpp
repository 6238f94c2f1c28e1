// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/data/incoming.hpp — the first message of a send as it arrived: read once out of the peer's bytes and
// checked. A value; `payload` borrows the delivery's bytes or an Unexpected's copy.
#pragma once
#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/wire.hpp"
#include "opal/am/endpoint.hpp"
#include "opal/core/bytes.hpp"

namespace mpi_shim::p2p {

struct Incoming {
  am::Endpoint* from = nullptr;
  Tag kind = 0;  ///< wire::kEager, kEagerSync, kRendezvous or kFailure
  wire::MatchHeader match{};
  std::uint64_t send_id = 0;  ///< not for kEager and kFailure
  std::uint64_t size = 0;     ///< bytes of the whole message
  std::uint64_t address = 0;  ///< kRendezvous with a memory handle: where the sender has it
  ByteSpan payload;           ///< the data; kRendezvous: the memory handle, or nothing; kFailure: Failure

  /// Fills a fresh one; false when the bytes are no such message.
  [[nodiscard]] bool parse(const btl::Delivery& delivery) noexcept;
};

}  // namespace mpi_shim::p2p
