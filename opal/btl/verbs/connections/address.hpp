// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/address.hpp — checks the address of a peer's module.  Pure functions.
#pragma once
#include "opal/btl/shared/socket_address.hpp"
#include "opal/btl/verbs/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// Errors: protocol (not an address of this transport), version_mismatch.
OPAL_EXPORT Result<wire::Address> decode(ByteSpan bytes);

OPAL_EXPORT SocketAddress socket_of(const wire::Address& address) noexcept;

}  // namespace opal::btl::verbs
