// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/data/incoming.hpp — the first message of a send as it arrived.  parse() copies the header once out of
// memory that the peer may write, and checks it.  A value; `payload` borrows the delivery's bytes, until the handler
// returns, or an Unexpected's copy.
#pragma once
#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/wire.hpp"
#include "opal/am/endpoint.hpp"
#include "opal/core/bytes.hpp"

namespace mpi_shim::p2p {

struct Incoming {
  am::Endpoint* from = nullptr;
  Tag kind = 0;  ///< wire::kEager, kRendezvous or kFailure
  wire::MatchHeader match{};
  std::uint64_t send_id = 0;  ///< the sender's number of its Send; 0 for kEager and kFailure
  std::uint64_t size = 0;     ///< bytes of the whole message
  std::uint64_t address = 0;  ///< kRendezvous with a memory handle: the address of the message at the sender
  /// The data; kRendezvous: the memory handle if `address` is not 0, else the first part of the data; kFailure:
  /// wire::Failure.
  ByteSpan payload;

  /// Whether the sender has used unexpected-message credit for `payload`.
  [[nodiscard]] bool took_credit() const noexcept {
    return kind == wire::kEager || (kind == wire::kRendezvous && address == 0 && !payload.empty());
  }
  /// Fills a default-constructed object.  False: the bytes are not a valid message of their tag.
  [[nodiscard]] bool parse(const btl::Delivery& delivery) noexcept {
    from = &am::sender(delivery);
    kind = delivery.tag;
    const auto take = [&](auto& header) {
      if (!read_object(delivery.data, header)) return false;
      payload = delivery.data.subspan(sizeof header);
      return true;
    };
    switch (kind) {
      case wire::kEager:
        if (!take(match)) return false;
        size = payload.size();
        return true;
      case wire::kRendezvous: {
        wire::RendezvousHeader header{};
        if (!take(header)) return false;
        match = header.match;
        send_id = header.send_id;
        size = header.size;
        address = header.address;
        return payload.size() <= (address != 0 ? MemoryHandle::kMaxSize : size);
      }
      case wire::kFailure: return take(match) && payload.size() == sizeof(wire::Failure);
      default: return false;
    }
  }
};

}  // namespace mpi_shim::p2p
