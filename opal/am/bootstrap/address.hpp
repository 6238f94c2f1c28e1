// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/address.hpp — a Context's address: its identity and the address of each of its modules.
// Wire (little endian):  u32 magic | u16 version | u16 count | u64 id.high | u64 id.low | count x entry
//                 entry: char name[16], zero padded | u32 size | size bytes
// The bytes come from a peer: decode() checks every field.  Pure functions; any thread.
#pragma once
#include <string_view>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

/// Both views borrow: from the bytes passed to decode(), or from the caller of encode().
struct TransportAddress {
  std::string_view transport;
  ByteSpan address;  ///< the module's address, opaque to opal/am
};

struct Address {
  PeerId id;
  std::vector<TransportAddress> transports;  ///< at most kMaxTransports
};

inline constexpr std::size_t kMaxTransports = 64;
inline constexpr std::size_t kMaxAddressSize = std::size_t{64} * 1024;  ///< bytes; decode() refuses a longer blob

/// Cuts names of transports to 15 characters.
OPAL_EXPORT std::vector<std::byte> encode(const Address& address);
/// Errors: protocol (not an address, wrong length, too many transports), version_mismatch.  The result borrows `bytes`.
OPAL_EXPORT Result<Address> decode(ByteSpan bytes);

}  // namespace opal::am
