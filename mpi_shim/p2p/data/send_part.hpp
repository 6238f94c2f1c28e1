// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/data/send_part.hpp — sends a part of a buffer as an active message.  Threads: under the Context's lock.
#pragma once
#include "mpi_shim/p2p/data/buffer.hpp"
#include "opal/am/endpoint.hpp"

namespace mpi_shim::p2p {

/// As send_part(), for bytes that are not contiguous: packs them into a fragment of the transport.
Post send_packed(am::Endpoint& to, Tag tag, ByteSpan header, const Buffer& data, std::uint64_t offset,
                 std::uint64_t bytes) noexcept;

/// Sends `header` and the bytes [offset, offset + bytes) of `data` to a peer as one active message.
inline Post send_part(am::Endpoint& to, Tag tag, ByteSpan header, const Buffer& data, std::uint64_t offset,
                      std::uint64_t bytes) noexcept {
  if (bytes == 0) return to.send_inline(tag, header, {});
  if (data.contiguous() == nullptr) return send_packed(to, tag, header, data, offset, bytes);
  return to.send_inline(tag, header, {data.contiguous() + offset, bytes});
}

}  // namespace mpi_shim::p2p
