// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "opal/btl/shared/registrations/device_handle.hpp"

namespace opal::btl {
namespace {

DeviceHandle a_handle() {
  DeviceHandle handle{};
  handle.key = 0x1122334455667788;
  handle.flags = DeviceHandle::kHasKey;
  handle.software = {17, 0x10000, 0x2000, 3, 7};
  return handle;
}

TEST(DeviceHandleTest, ComesBackAsItWas) {
  const auto decoded = DeviceHandle::decode(a_handle().encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->key, a_handle().key);
  EXPECT_EQ(decoded->software.base, 0x10000U);
  const auto software = SoftwareHandle::decode(decoded->software_handle());
  ASSERT_TRUE(software);
  EXPECT_EQ(software->generation, 17U);
}

TEST(DeviceHandleTest, EveryFlippedBitIsRefused) {
  const MemoryHandle good = a_handle().encode();
  for (std::size_t bit = 0; bit < good.bytes().size() * 8; ++bit) {
    std::vector<std::byte> bytes{good.bytes().begin(), good.bytes().end()};
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DeviceHandle::decode(*MemoryHandle::from_bytes(bytes))) << bit;
  }
}

TEST(DeviceHandleTest, FlagsThatDoNotFitTogetherAreRefused) {
  DeviceHandle handle = a_handle();
  handle.flags = DeviceHandle::kAtomics;  // without a key
  EXPECT_FALSE(DeviceHandle::decode(handle.encode()));
  handle.flags = DeviceHandle::kHasKey | 8U;
  EXPECT_FALSE(DeviceHandle::decode(handle.encode()));
  handle.flags = 0;
  EXPECT_FALSE(DeviceHandle::decode(handle.encode())) << "a key without kHasKey";
  handle.key = 0;
  EXPECT_TRUE(DeviceHandle::decode(handle.encode()));
}

TEST(DeviceHandleTest, ADeviceTakesAddressesOrOffsets) {
  DeviceHandle handle = a_handle();
  EXPECT_EQ(handle.device_address(0x10010), 0x10U) << "an offset in the registration";
  handle.flags |= DeviceHandle::kVirtualAddress;
  EXPECT_EQ(handle.device_address(0x10010), 0x10010U);
}

}  // namespace
}  // namespace opal::btl
