// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/handshake.hpp — both sides of a connection prove that they know the job's secret and the
// acceptor's address blob, by challenge and response; only then is anything else of the other side's bytes looked at.
// The connector's proof covers the acceptor's nonce, the acceptor's both nonces and the connector's Hello: neither can
// be replayed, reflected or taken over by another connection.  Pure functions.
#pragma once
#include "opal/btl/tcp/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::tcp {

/// The key of all connections to the acceptor whose blob has `token`.
OPAL_EXPORT Secret connection_key(const Secret& job, const Nonce& token) noexcept;

OPAL_EXPORT wire::Challenge make_challenge() noexcept;

/// The connector's answer to a challenge.
OPAL_EXPORT wire::Hello make_hello(const Secret& key, const wire::Challenge& challenge, const PeerId& from,
                                   const PeerId& to, std::uint64_t max_send) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello) noexcept;

/// The acceptor's answer to a Hello that was genuine.
OPAL_EXPORT wire::Welcome make_welcome(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                                       std::uint64_t max_send) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                            const wire::Welcome& welcome) noexcept;

}  // namespace opal::btl::tcp
