// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/handshake.hpp"

#include <cstddef>

#include "opal/core/bytes.hpp"

namespace opal::btl::rdm {
namespace {

Proof proof_of(const Secret& key, const PeerId& to, ByteSpan address, const wire::Hello& hello) noexcept {
  return key.prove("rdm hello", {bytes_of(to), bytes_of(hello).first(offsetof(wire::Hello, proof)), address});
}

Proof proof_of(const Secret& key, const wire::Hello& hello, const wire::Welcome& welcome) noexcept {
  return key.prove("rdm welcome", {bytes_of(hello), bytes_of(welcome).first(offsetof(wire::Welcome, proof))});
}

}  // namespace

Secret connection_key(const Secret& job, const Nonce& token) noexcept {
  return job.derive("rdm connection", bytes_of(token));
}

Secret session_key(const Secret& key, const Nonce& connector, const Nonce& acceptor) noexcept {
  return key.derive("rdm session", bytes_of(std::array{connector, acceptor}));
}

void sign(const Secret& key, const PeerId& to, ByteSpan address, wire::Hello& hello) noexcept {
  hello.proof = proof_of(key, to, address, hello);
}

bool is_genuine(const Secret& key, const PeerId& to, ByteSpan address, const wire::Hello& hello) noexcept {
  return hello.address_size == address.size() && same(hello.proof, proof_of(key, to, address, hello));
}

void sign(const Secret& key, const wire::Hello& hello, wire::Welcome& welcome) noexcept {
  welcome.proof = proof_of(key, hello, welcome);
}

bool is_genuine(const Secret& key, const wire::Hello& hello, const wire::Welcome& welcome) noexcept {
  return same(welcome.proof, proof_of(key, hello, welcome));
}

Proof confirmation(const Secret& session, const wire::Welcome& welcome) noexcept {
  return session.prove("rdm confirm", {bytes_of(welcome)});
}

}  // namespace opal::btl::rdm
