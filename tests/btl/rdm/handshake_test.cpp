// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/handshake.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace opal::btl::rdm {
namespace {

const PeerId kTo{3, 4};
const std::array<std::byte, 5> kBlob{std::byte{9}};

wire::Hello hello_with(const Secret& key) {
  wire::Hello hello{wire::kWireVersion, 64, 15360, 1, 2, kBlob.size(), {1, 2}, fresh_nonce(), {}};
  sign(key, kTo, kBlob, hello);
  return hello;
}

/// Calls `check` with every one-bit change of `object`.
template <class T, class Check>
void with_each_bit_flipped(const T& object, Check check) {
  for (std::size_t bit = 0; bit < sizeof(T) * 8; ++bit) {
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &object, sizeof object);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    T changed;
    std::memcpy(&changed, bytes.data(), sizeof changed);
    EXPECT_FALSE(check(changed)) << "bit " << bit;
  }
}

TEST(RdmHandshake, AHelloIsGenuineForItsAddresseeKeyAndAddressOnly) {
  const Secret job = *Secret::from_text(Secret::random_text());
  const Secret key = connection_key(job, fresh_nonce());
  const wire::Hello hello = hello_with(key);
  EXPECT_TRUE(is_genuine(key, kTo, kBlob, hello));
  EXPECT_FALSE(is_genuine(key, {1, 2}, kBlob, hello)) << "another addressee";
  EXPECT_FALSE(is_genuine(connection_key(job, fresh_nonce()), kTo, kBlob, hello)) << "another blob of the acceptor";
  auto changed = kBlob;
  changed[4] = std::byte{1};
  EXPECT_FALSE(is_genuine(key, kTo, changed, hello)) << "another address of the connector";
  EXPECT_FALSE(is_genuine(key, kTo, ByteSpan{kBlob}.first(4), hello));
  with_each_bit_flipped(hello, [&](const wire::Hello& other) { return is_genuine(key, kTo, kBlob, other); });
}

TEST(RdmHandshake, AWelcomeAnswersOneHello) {
  const Secret key = connection_key(*Secret::from_text(Secret::random_text()), fresh_nonce());
  const wire::Hello hello = hello_with(key);
  wire::Welcome welcome{5, 6, 64, fresh_nonce(), {}};
  sign(key, hello, welcome);
  EXPECT_TRUE(is_genuine(key, hello, welcome));
  EXPECT_FALSE(is_genuine(key, hello_with(key), welcome)) << "it has another nonce";
  with_each_bit_flipped(welcome, [&](const wire::Welcome& other) { return is_genuine(key, hello, other); });
}

TEST(RdmHandshake, AConfirmCoversBothNonces) {
  const Secret key = connection_key(*Secret::from_text(Secret::random_text()), fresh_nonce());
  const Nonce connector = fresh_nonce();
  const wire::Welcome welcome{5, 6, 64, fresh_nonce(), {}};
  const Proof proof = confirmation(session_key(key, connector, welcome.nonce), welcome);
  EXPECT_TRUE(same(proof, confirmation(session_key(key, connector, welcome.nonce), welcome)));
  EXPECT_FALSE(same(proof, confirmation(session_key(key, fresh_nonce(), welcome.nonce), welcome)));
  EXPECT_FALSE(same(proof, confirmation(session_key(key, connector, fresh_nonce()), welcome)));
}

}  // namespace
}  // namespace opal::btl::rdm
