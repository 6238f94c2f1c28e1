// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/shared/rdm/wire.hpp"

namespace opal::btl::rdm {
namespace {

const PeerId kTo{3, 4};
const std::array<std::byte, 5> kBlob{std::byte{9}};

Secret connection_key(const Secret& job) { return job.derive(wire::kConnectionKey, bytes_of(fresh_nonce())); }

wire::Hello hello_with(const Secret& key) {
  wire::Hello hello{wire::kWireVersion, 64, 15360, 1, 2, kBlob.size(), {1, 2}, fresh_nonce(), {}};
  sign(key, hello, bytes_of(kTo), ByteSpan{kBlob});
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
  const Secret key = connection_key(job);
  const wire::Hello hello = hello_with(key);
  const PeerId other_peer{1, 2};
  const auto genuine = [&](const Secret& with, const PeerId& to, ByteSpan blob) {
    return is_genuine(with, hello, bytes_of(to), blob);
  };
  EXPECT_TRUE(genuine(key, kTo, kBlob));
  EXPECT_FALSE(genuine(key, other_peer, kBlob)) << "another addressee";
  EXPECT_FALSE(genuine(connection_key(job), kTo, kBlob)) << "another blob of the acceptor";
  auto changed = kBlob;
  changed[4] = std::byte{1};
  EXPECT_FALSE(genuine(key, kTo, changed)) << "another address of the connector";
  EXPECT_FALSE(genuine(key, kTo, ByteSpan{kBlob}.first(4)));
  with_each_bit_flipped(
      hello, [&](const wire::Hello& other) { return is_genuine(key, other, bytes_of(kTo), ByteSpan{kBlob}); });
}

TEST(RdmHandshake, AWelcomeAnswersOneHello) {
  const Secret key = connection_key(*Secret::from_text(Secret::random_text()));
  const wire::Hello hello = hello_with(key);
  const wire::Hello other_hello = hello_with(key);
  wire::Welcome welcome{5, 6, 64, fresh_nonce(), {}};
  sign(key, welcome, bytes_of(hello));
  EXPECT_TRUE(is_genuine(key, welcome, bytes_of(hello)));
  EXPECT_FALSE(is_genuine(key, welcome, bytes_of(other_hello))) << "it has another nonce";
  with_each_bit_flipped(welcome, [&](const wire::Welcome& other) { return is_genuine(key, other, bytes_of(hello)); });
}

TEST(RdmHandshake, AConfirmCoversBothNonces) {
  const Secret key = connection_key(*Secret::from_text(Secret::random_text()));
  const Nonce connector = fresh_nonce();
  const wire::Welcome welcome{5, 6, 64, fresh_nonce(), {}};
  wire::Confirm confirm{};
  sign(session_key(key, wire::kSessionKey, connector, welcome.nonce), confirm, bytes_of(welcome));
  const auto genuine = [&](const Nonce& one, const Nonce& other) {
    return is_genuine(session_key(key, wire::kSessionKey, one, other), confirm, bytes_of(welcome));
  };
  EXPECT_TRUE(genuine(connector, welcome.nonce));
  EXPECT_FALSE(genuine(fresh_nonce(), welcome.nonce));
  EXPECT_FALSE(genuine(connector, fresh_nonce()));
}

}  // namespace
}  // namespace opal::btl::rdm
