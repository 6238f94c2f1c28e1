// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/handshake.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace opal::btl::verbs {
namespace {

const PeerId kFrom{1, 2};
const PeerId kTo{3, 4};

wire::Request request_with(const Secret& key) {
  wire::Request request{wire::kWireVersion, wire::Purpose::messages, 64, 16384, kFrom, fresh_nonce(), {}};
  sign(key, kTo, request);
  return request;
}

/// Calls `check` with every one-bit change of `object`.
template <class T, class Check>
void with_each_bit_flipped(const T& object, Check check) {
  for (std::size_t bit = 0; bit < sizeof(T) * 8; ++bit) {
    T changed = object;
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &changed, sizeof changed);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    std::memcpy(&changed, bytes.data(), sizeof changed);
    EXPECT_FALSE(check(changed)) << "bit " << bit;
  }
}

TEST(VerbsHandshake, ARequestIsGenuineForItsAddresseeAndKeyOnly) {
  const Secret job = *Secret::from_text(Secret::random_text());
  const Nonce token = fresh_nonce();
  const Secret key = connection_key(job, token);
  const wire::Request request = request_with(key);
  EXPECT_TRUE(is_genuine(key, kTo, request));
  EXPECT_FALSE(is_genuine(key, kFrom, request)) << "another addressee";
  EXPECT_FALSE(is_genuine(connection_key(job, fresh_nonce()), kTo, request)) << "another blob";
  EXPECT_FALSE(is_genuine(connection_key(Secret{}, token), kTo, request)) << "another job";
  with_each_bit_flipped(request, [&](const wire::Request& changed) { return is_genuine(key, kTo, changed); });
}

TEST(VerbsHandshake, AReplyAnswersOneRequestOnly) {
  const Secret key = connection_key(Secret{}, fresh_nonce());
  const wire::Request request = request_with(key);
  wire::Reply reply{64, 0, fresh_nonce(), {}};
  sign(key, request, reply);
  EXPECT_TRUE(is_genuine(key, request, reply));
  EXPECT_FALSE(is_genuine(key, request_with(key), reply)) << "a recording";
  with_each_bit_flipped(reply, [&](const wire::Reply& changed) { return is_genuine(key, request, changed); });
}

TEST(VerbsHandshake, AConfirmationIsOfOneSessionOnly) {
  const Secret key = connection_key(Secret{}, fresh_nonce());
  const Nonce connector = fresh_nonce();
  const Nonce acceptor = fresh_nonce();
  const wire::Address address{wire::kMagic, wire::kWireVersion, 18515, kFrom, fresh_nonce(), {}};
  const Proof proof = confirmation(session_key(key, connector, acceptor), address);
  EXPECT_TRUE(same(proof, confirmation(session_key(key, connector, acceptor), address)));
  EXPECT_FALSE(same(proof, confirmation(session_key(key, connector, fresh_nonce()), address)));
  EXPECT_FALSE(same(proof, confirmation(session_key(key, acceptor, connector), address)));
  wire::Address elsewhere = address;
  ++elsewhere.port;
  EXPECT_FALSE(same(proof, confirmation(session_key(key, connector, acceptor), elsewhere)));
}

}  // namespace
}  // namespace opal::btl::verbs
