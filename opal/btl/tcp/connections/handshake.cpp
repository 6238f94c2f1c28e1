// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/handshake.hpp"

namespace opal::btl::tcp {
namespace {

Proof proof_of(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello) noexcept {
  return key.prove("tcp hello", {bytes_of(challenge), bytes_of(hello).first(offsetof(wire::Hello, proof))});
}

Proof proof_of(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
               const wire::Welcome& welcome) noexcept {
  return key.prove("tcp welcome", {bytes_of(challenge), bytes_of(hello), bytes_of(welcome.max_send)});
}

}  // namespace

Secret connection_key(const Secret& job, const Nonce& token) noexcept {
  return job.derive("tcp connection", bytes_of(token));
}

wire::Challenge make_challenge() noexcept { return {wire::kMagic, wire::kWireVersion, 0, fresh_nonce()}; }

wire::Hello make_hello(const Secret& key, const wire::Challenge& challenge, const PeerId& from, const PeerId& to,
                       std::uint64_t max_send) noexcept {
  wire::Hello hello{from, to, fresh_nonce(), max_send, {}};
  hello.proof = proof_of(key, challenge, hello);
  return hello;
}

bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello) noexcept {
  return same(hello.proof, proof_of(key, challenge, hello));
}

wire::Welcome make_welcome(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                           std::uint64_t max_send) noexcept {
  wire::Welcome welcome{max_send, {}};
  welcome.proof = proof_of(key, challenge, hello, welcome);
  return welcome;
}

bool is_genuine(const Secret& key, const wire::Challenge& challenge, const wire::Hello& hello,
                const wire::Welcome& welcome) noexcept {
  return same(welcome.proof, proof_of(key, challenge, hello, welcome));
}

}  // namespace opal::btl::tcp
