// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/verbs/wire.hpp"

namespace opal::btl::verbs {
namespace {

const PeerId kFrom{1, 2};
const PeerId kTo{3, 4};

Secret connection_key(const Secret& job, const Nonce& token) {
  return job.derive(wire::kConnectionKey, bytes_of(token));
}

wire::Request request_with(const Secret& key) {
  wire::Request request{wire::kWireVersion, wire::Purpose::messages, 64, 16384, kFrom, fresh_nonce(), {}};
  sign(key, request, bytes_of(kTo));
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
  EXPECT_TRUE(is_genuine(key, request, bytes_of(kTo)));
  EXPECT_FALSE(is_genuine(key, request, bytes_of(kFrom))) << "another addressee";
  EXPECT_FALSE(is_genuine(connection_key(job, fresh_nonce()), request, bytes_of(kTo))) << "another blob";
  EXPECT_FALSE(is_genuine(connection_key(Secret{}, token), request, bytes_of(kTo))) << "another job";
  with_each_bit_flipped(request, [&](const wire::Request& changed) { return is_genuine(key, changed, bytes_of(kTo)); });
}

TEST(VerbsHandshake, AReplyAnswersOneRequestOnly) {
  const Secret key = connection_key(Secret{}, fresh_nonce());
  const wire::Request request = request_with(key);
  wire::Reply reply{64, 0, fresh_nonce(), {}};
  sign(key, reply, bytes_of(request));
  EXPECT_TRUE(is_genuine(key, reply, bytes_of(request)));
  const wire::Request other = request_with(key);
  EXPECT_FALSE(is_genuine(key, reply, bytes_of(other))) << "a recording";
  with_each_bit_flipped(reply, [&](const wire::Reply& changed) { return is_genuine(key, changed, bytes_of(request)); });
}

TEST(VerbsHandshake, AConfirmationIsOfOneSessionOnly) {
  const Secret key = connection_key(Secret{}, fresh_nonce());
  const Nonce connector = fresh_nonce();
  const Nonce acceptor = fresh_nonce();
  wire::Confirm confirm{{wire::kMagic, wire::kWireVersion, 18515, kFrom, fresh_nonce(), {}}, {}};
  const auto session = [&](const Nonce& one, const Nonce& other) {
    return session_key(key, wire::kSessionKey, one, other);
  };
  sign(session(connector, acceptor), confirm);
  EXPECT_TRUE(is_genuine(session(connector, acceptor), confirm));
  EXPECT_FALSE(is_genuine(session(connector, fresh_nonce()), confirm));
  EXPECT_FALSE(is_genuine(session(acceptor, connector), confirm));
  ++confirm.address.port;
  EXPECT_FALSE(is_genuine(session(connector, acceptor), confirm));
}

}  // namespace
}  // namespace opal::btl::verbs
