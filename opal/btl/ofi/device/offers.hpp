// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/device/offers.hpp — the choice of a provider among those that libfabric offers.  Pure functions.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::ofi {

/// One entry of fi_getinfo().
struct Offer {
  std::string_view provider;  ///< "efa", "tcp;ofi_rxm"
  std::string_view domain;    ///< "efa_0-rdm", "lo"
};

/// True if both names have the same parts: the order of "tcp;ofi_rxm" has no meaning.
OPAL_EXPORT bool same_provider(std::string_view a, std::string_view b);

/// True if the provider moves data by the processor, as tcp, udp, sockets and shm do.
OPAL_EXPORT bool is_software(std::string_view provider);

/// True if OPAL has a transport of its own for what the provider uses: software, or a device of verbs.
OPAL_EXPORT bool is_served(std::string_view provider);

/// Returns the index of the offer to use.  `provider` empty: the first one that is not served.  `domain` empty: any.
/// Errors: unreachable (there is none; the text lists the offers and the variable to set), not_supported (shm).
OPAL_EXPORT Result<std::size_t> choose(std::span<const Offer> offers, std::string_view provider,
                                       std::string_view domain);

}  // namespace opal::btl::ofi
