// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/handshake.hpp — both sides of a connection prove that they know a key: for messages the
// one made of the job's secret and the acceptor's address blob, for one-sided connections that of the session between
// the two. The request's proof limits the cost of an unauthenticated request to a check of 56 bytes.  It may be a
// recording, so nothing is handed up before the connector's `confirm`, which covers the acceptor's nonce.  A one-sided
// connection needs no confirmation: its requests are numbered in the nonce, and the session accepts each number once.
// Pure functions.
#pragma once
#include "opal/btl/verbs/wire.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::verbs {

/// The key of all message connections to the acceptor whose blob has `token`.
OPAL_EXPORT Secret connection_key(const Secret& job, const Nonce& token) noexcept;
/// What only the two ends of a message connection share.
OPAL_EXPORT Secret session_key(const Secret& key, const Nonce& connector, const Nonce& acceptor) noexcept;

/// Fills in the proof of `request` to `to`.
OPAL_EXPORT void sign(const Secret& key, const PeerId& to, wire::Request& request) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const PeerId& to, const wire::Request& request) noexcept;

/// Fills in the proof of the acceptor's `reply`.
OPAL_EXPORT void sign(const Secret& key, const wire::Request& request, wire::Reply& reply) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Request& request, const wire::Reply& reply) noexcept;

/// The proof in `confirm`.
OPAL_EXPORT Proof confirmation(const Secret& session, const wire::Address& address) noexcept;

}  // namespace opal::btl::verbs
