// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/handshake.hpp — challenge and response: both sides of a connection prove that they know the
// job's secret and the token in the acceptor's address (address.hpp).
//   acceptor -> connector   Challenge: a nonce
//   connector -> acceptor   Hello: a nonce, and a proof over the Challenge and the Hello
//   acceptor -> connector   Welcome: a proof over the Challenge, the Hello and the Welcome
// So a proof cannot be replayed or reflected, or used on another connection.  Functions without state.
#pragma once
#include "opal/btl/tcp/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl::tcp {

/// The key of all connections to the acceptor whose address has `token`.
OPAL_EXPORT Secret connection_key(const Secret& job, const Nonce& token) noexcept;

/// A Challenge with a new nonce.
OPAL_EXPORT wire::Challenge make_challenge() noexcept;

/// The connector's answer to a Challenge.  `max_send`: its largest message in bytes.  is_genuine() checks it.
OPAL_EXPORT wire::Hello make_hello(const Secret& key, const wire::Challenge& challenge, const PeerId& from,
                                   const PeerId& to, std::uint64_t max_send) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello) noexcept;

/// The acceptor's answer to a genuine Hello.  `max_send`: its largest message in bytes.  is_genuine() checks it.
OPAL_EXPORT wire::Welcome make_welcome(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                                       std::uint64_t max_send) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                            const wire::Welcome& welcome) noexcept;

}  // namespace opal::btl::tcp
