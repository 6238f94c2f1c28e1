// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/data/incoming.hpp"

namespace mpi_shim::p2p {

bool Incoming::parse(const btl::Delivery& delivery) noexcept {
  from = &am::sender(delivery);
  kind = delivery.tag;
  const ByteSpan data = delivery.data;
  switch (delivery.tag) {
    case wire::kEager: {
      if (!read_object(data, match)) return false;
      payload = data.subspan(sizeof(wire::MatchHeader));
      size = payload.size();
      return true;
    }
    case wire::kEagerSync: {
      wire::SyncHeader header{};
      if (!read_object(data, header)) return false;
      match = header.match;
      send_id = header.send_id;
      payload = data.subspan(sizeof header);
      size = payload.size();
      return true;
    }
    case wire::kRendezvous: {
      wire::RendezvousHeader header{};
      if (!read_object(data, header)) return false;
      match = header.match;
      send_id = header.send_id;
      size = header.size;
      address = header.address;
      payload = data.subspan(sizeof header);
      return payload.size() <= (address != 0 ? MemoryHandle::kMaxSize : size);
    }
    case wire::kFailure: {
      if (!read_object(data, match)) return false;
      payload = data.subspan(sizeof match);
      return payload.size() == sizeof(wire::Failure);
    }
    default: return false;
  }
}

}  // namespace mpi_shim::p2p
