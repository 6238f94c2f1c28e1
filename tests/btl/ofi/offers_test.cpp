// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/device/offers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opal::btl::ofi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Offer kSoftwareOnly[] = {
    {"tcp;ofi_rxm", "eth0"}, {"tcp;ofi_rxm", "lo"}, {"udp;ofi_rxd", "eth0"}, {"shm", "shm"}, {"sockets", "eth0"}};
constexpr Offer kWithDevices[] = {{"verbs;ofi_rxm", "mlx5_0"}, {"psm3", "psm3"}, {"tcp;ofi_rxm", "eth0"},
                                  {"efa", "efa_0-rdm"},        {"cxi", "cxi0"},  {"cxi", "cxi1"}};

TEST(OfiOffers, WithoutAVariableTheFirstDeviceWithoutAnotherTransportIsTaken) {
  EXPECT_EQ(*choose(kWithDevices, "", ""), 3U);
  EXPECT_EQ(*choose(kWithDevices, "", "cxi1"), 5U) << "a domain alone chooses its provider";
}

TEST(OfiOffers, WithoutADeviceTheReasonListsTheProvidersAndTheVariable) {
  const auto none = choose(kSoftwareOnly, "", "");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unreachable);
  EXPECT_THAT(none.error().where,
              AllOf(HasSubstr("btl_ofi_provider"), HasSubstr("tcp;ofi_rxm, udp;ofi_rxd, shm, sockets")));
  EXPECT_THAT(choose({}, "", "").error().where, HasSubstr("no provider"));
}

TEST(OfiOffers, ANamedProviderIsTakenAlsoIfItIsSoftware) {
  EXPECT_EQ(*choose(kSoftwareOnly, "udp;ofi_rxd", ""), 2U);
  EXPECT_EQ(*choose(kSoftwareOnly, "ofi_rxm;tcp", ""), 0U) << "the order of the parts has no meaning";
  EXPECT_EQ(*choose(kSoftwareOnly, "tcp;ofi_rxm", "lo"), 1U);
  const auto unknown = choose(kSoftwareOnly, "efa", "");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().where, AllOf(HasSubstr("\"efa\""), HasSubstr("sockets")));
  EXPECT_FALSE(choose(kSoftwareOnly, "tcp", "")) << "a part is another provider";
}

TEST(OfiOffers, ShmIsRefusedInFavourOfSm) {
  EXPECT_EQ(choose(kSoftwareOnly, "shm", "").error().code, Errc::not_supported);
}

TEST(OfiOffers, AnUnknownDomainIsRefusedWithThoseOfTheProvider) {
  const auto refused = choose(kSoftwareOnly, "tcp;ofi_rxm", "eth1");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().where, AllOf(HasSubstr("\"eth1\""), HasSubstr("eth0, lo"), Not(HasSubstr("shm"))));
}

TEST(OfiOffers, WhatOtherTransportsReachIsKnown) {
  for (const char* name : {"tcp", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets", "shm", "net;ofi_rxm"}) {
    EXPECT_TRUE(is_software(name)) << name;
    EXPECT_TRUE(is_served(name)) << name;
  }
  for (const char* name : {"verbs;ofi_rxm", "verbs;ofi_rxd", "psm3"}) {
    EXPECT_FALSE(is_software(name)) << name;
    EXPECT_TRUE(is_served(name)) << name;
  }
  for (const char* name : {"efa", "cxi", "opx", "psm2"}) EXPECT_FALSE(is_served(name)) << name;
}

}  // namespace
}  // namespace opal::btl::ofi
