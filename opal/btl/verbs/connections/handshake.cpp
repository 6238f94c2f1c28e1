// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/handshake.hpp"

#include <algorithm>
#include <cstddef>

#include "opal/core/bytes.hpp"

namespace opal::btl::verbs {
namespace {

wire::ShortProof proof_of(const Secret& key, const PeerId& to, const wire::Request& request) noexcept {
  const Proof whole =
      key.prove("verbs request", {bytes_of(to), bytes_of(request).first(offsetof(wire::Request, proof))});
  wire::ShortProof proof;
  std::copy_n(whole.begin(), proof.size(), proof.begin());
  return proof;
}

Proof proof_of(const Secret& key, const wire::Request& request, const wire::Reply& reply) noexcept {
  return key.prove("verbs reply", {bytes_of(request), bytes_of(reply).first(offsetof(wire::Reply, proof))});
}

/// Converts a ShortProof for same().
Proof widened(const wire::ShortProof& proof) noexcept {
  Proof wide{};
  std::copy(proof.begin(), proof.end(), wide.begin());
  return wide;
}

}  // namespace

Secret connection_key(const Secret& job, const Nonce& token) noexcept {
  return job.derive("verbs connection", bytes_of(token));
}

Secret session_key(const Secret& key, const Nonce& connector, const Nonce& acceptor) noexcept {
  return key.derive("verbs session", bytes_of(std::array{connector, acceptor}));
}

void sign(const Secret& key, const PeerId& to, wire::Request& request) noexcept {
  request.proof = proof_of(key, to, request);
}

bool is_genuine(const Secret& key, const PeerId& to, const wire::Request& request) noexcept {
  return same(widened(request.proof), widened(proof_of(key, to, request)));
}

void sign(const Secret& key, const wire::Request& request, wire::Reply& reply) noexcept {
  reply.proof = proof_of(key, request, reply);
}

bool is_genuine(const Secret& key, const wire::Request& request, const wire::Reply& reply) noexcept {
  return same(reply.proof, proof_of(key, request, reply));
}

Proof confirmation(const Secret& session, const wire::Address& address) noexcept {
  return session.prove("verbs confirm", {bytes_of(address)});
}

}  // namespace opal::btl::verbs
