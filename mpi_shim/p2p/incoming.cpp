// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/incoming.hpp"

namespace mpi_shim::p2p {

std::optional<Incoming> Incoming::parse(const btl::Delivery& delivery) noexcept {
  Incoming message;
  message.from = &am::sender(delivery);
  message.kind = delivery.tag;
  const ByteSpan data = delivery.data;
  switch (delivery.tag) {
    case wire::kEager: {
      if (!read_object(data, message.match)) return std::nullopt;
      message.payload = data.subspan(sizeof(wire::MatchHeader));
      message.size = message.payload.size();
      return message;
    }
    case wire::kEagerSync: {
      wire::SyncHeader header{};
      if (!read_object(data, header)) return std::nullopt;
      message.match = header.match;
      message.send_id = header.send_id;
      message.payload = data.subspan(sizeof header);
      message.size = message.payload.size();
      return message;
    }
    case wire::kRendezvous: {
      wire::RendezvousHeader header{};
      if (!read_object(data, header)) return std::nullopt;
      message.match = header.match;
      message.send_id = header.send_id;
      message.size = header.size;
      message.address = header.address;
      message.payload = data.subspan(sizeof header);
      if (message.payload.size() > MemoryHandle::kMaxSize) return std::nullopt;
      return message;
    }
    default: return std::nullopt;
  }
}

}  // namespace mpi_shim::p2p
