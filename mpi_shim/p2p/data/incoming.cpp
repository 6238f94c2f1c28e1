// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/data/incoming.hpp"

namespace mpi_shim::p2p {

bool Incoming::parse(const btl::Delivery& delivery) noexcept {
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

}  // namespace mpi_shim::p2p
