// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/handshake.hpp — the proofs by which both sides of a connection show that they know a key.
//   connection  key                                                         replay protection
//   messages    connection_key(): job secret and token of the acceptor      `confirm` covers the acceptor's nonce
//   one-sided   session_key() of the message connection of the two          the session accepts each request number
//   once
// The proof in the request limits the cost of an unauthenticated request to a check of 56 bytes.  A request may be a
// replay, so the acceptor delivers no message before the `confirm`.  Pure functions.
#pragma once
#include "opal/btl/verbs/wire.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::verbs {

/// The key of all message connections to the acceptor whose address has `token`.
OPAL_EXPORT Secret connection_key(const Secret& job, const Nonce& token) noexcept;
/// A key that only the two ends of one message connection share.
OPAL_EXPORT Secret session_key(const Secret& key, const Nonce& connector, const Nonce& acceptor) noexcept;

/// sign() fills in the proof of a request to the acceptor `to`; is_genuine() checks it.
OPAL_EXPORT void sign(const Secret& key, const PeerId& to, wire::Request& request) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const PeerId& to, const wire::Request& request) noexcept;

/// The same for the acceptor's `reply` to `request`.
OPAL_EXPORT void sign(const Secret& key, const wire::Request& request, wire::Reply& reply) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Request& request, const wire::Reply& reply) noexcept;

/// The proof in the connector's Confirm; `address`: of the connector's module.
OPAL_EXPORT Proof confirmation(const Secret& session, const wire::Address& address) noexcept;

}  // namespace opal::btl::verbs
