// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/address.hpp — makes the address of a module and checks that of a peer.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/btl/shared/rdm/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::rdm {

struct Address {
  wire::AddressHead head;
  std::vector<std::byte> name;  ///< the address in the network
};

/// `magic`: of the transport.  Errors: protocol (not an address of this transport), version_mismatch.
OPAL_EXPORT Result<Address> decode(ByteSpan bytes, std::uint32_t magic);
/// The bytes of an address; fills in version and name_size.
OPAL_EXPORT std::vector<std::byte> encode(const Address& address);

/// Checks that the peer is in the same network, with the same form of names.
/// Errors: unreachable (another network or format).
OPAL_EXPORT Result<void> check_network(const wire::AddressHead& peer, const wire::AddressHead& own);

}  // namespace opal::btl::rdm
