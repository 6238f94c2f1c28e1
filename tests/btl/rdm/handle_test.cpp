// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "opal/btl/shared/rdm/handle.hpp"

namespace opal::btl::rdm {
namespace {

wire::Handle a_handle() {
  wire::Handle handle{};
  handle.key = 0x1122334455667788;
  handle.flags = wire::kHasKey;
  handle.software = {17, 0x10000, 0x2000, 3, 7};
  return handle;
}

TEST(RdmHandle, ComesBackAsItWas) {
  const auto decoded = decode_handle(encode_handle(a_handle()));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->key, a_handle().key);
  EXPECT_EQ(decoded->software.base, 0x10000U);
  const auto software = SoftwareHandle::decode(software_part(*decoded));
  ASSERT_TRUE(software);
  EXPECT_EQ(software->generation, 17U);
}

TEST(RdmHandle, EveryFlippedBitIsRefused) {
  const MemoryHandle good = encode_handle(a_handle());
  for (std::size_t bit = 0; bit < good.bytes().size() * 8; ++bit) {
    std::vector<std::byte> bytes{good.bytes().begin(), good.bytes().end()};
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode_handle(*MemoryHandle::from_bytes(bytes))) << bit;
  }
}

TEST(RdmHandle, ANetworkTakesAddressesOrOffsets) {
  wire::Handle handle = a_handle();
  EXPECT_EQ(network_address(handle, 0x10010), 0x10U) << "an offset in the registration";
  handle.flags |= wire::kVirtualAddress;
  EXPECT_EQ(network_address(handle, 0x10010), 0x10010U);
}

}  // namespace
}  // namespace opal::btl::rdm
