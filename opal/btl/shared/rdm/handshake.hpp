// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/handshake.hpp — the proofs by which both sides show that they know the job's secret.
// The proof in a Hello limits the cost of an unauthenticated one to a check of its bytes.  A Hello may be a replay, so
// the acceptor delivers no message before the Confirm, which covers its nonce.  Pure functions.
#pragma once
#include "opal/btl/shared/rdm/wire.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::rdm {

/// The key of all Hellos to the acceptor whose address has `token`.
OPAL_EXPORT Secret connection_key(const Secret& job, const Nonce& token) noexcept;
/// A key that only the two ends of one handshake share.
OPAL_EXPORT Secret session_key(const Secret& key, const Nonce& connector, const Nonce& acceptor) noexcept;

/// sign() fills in the proof of a Hello to the acceptor `to`; is_genuine() checks it.  `address`: the connector's blob.
OPAL_EXPORT void sign(const Secret& key, const PeerId& to, ByteSpan address, wire::Hello& hello) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const PeerId& to, ByteSpan address, const wire::Hello& hello) noexcept;

/// The same for the acceptor's `welcome` to `hello`.
OPAL_EXPORT void sign(const Secret& key, const wire::Hello& hello, wire::Welcome& welcome) noexcept;
OPAL_EXPORT bool is_genuine(const Secret& key, const wire::Hello& hello, const wire::Welcome& welcome) noexcept;

/// The proof in the connector's Confirm of `welcome`.
OPAL_EXPORT Proof confirmation(const Secret& session, const wire::Welcome& welcome) noexcept;

}  // namespace opal::btl::rdm
