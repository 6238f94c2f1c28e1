// SPDX-License-Identifier: Apache-2.0
// The order in which rails take devices, on hosts that hwloc makes up.
#include "opal/btl/verbs/connections/device_order.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace opal::btl::verbs {
namespace {

using ::testing::ElementsAre;
using topology::Cpus;
using topology::Topology;

/// A device of a made-up host: the processors that its local_cpus would name.
struct Device {
  std::string name;
  std::string network;
  Cpus local;
  std::size_t listed = 0;
};

/// The names of the devices in the order in which a process on the processors `own` takes them.
std::vector<std::string> order(const std::string& host, const Cpus& own, const std::vector<Device>& devices) {
  ::setenv("HWLOC_SYNTHETIC", host.c_str(), 1);
  const auto topology = Topology::open();
  ::unsetenv("HWLOC_SYNTHETIC");
  std::vector<Candidate> candidates;
  for (const Device& device : devices) {
    candidates.push_back({device.name, device.network, device.listed, topology.value().nearness(own, device.local)});
  }
  std::vector<std::string> names;
  for (const std::size_t place : order_of(candidates)) names.push_back(candidates[place].device);
  return names;
}

const std::string kTwoPackages = "package:2 l3:2 core:2 pu:1";  // processors 0 to 3, and 4 to 7

TEST(VerbsDeviceOrder, TheDeviceOfTheOwnPackageIsFirst) {
  const std::vector<Device> devices{{"mlx5_0", "10.1.0.0/16", {0, 1, 2, 3}}, {"mlx5_1", "10.1.0.0/16", {4, 5, 6, 7}}};
  EXPECT_THAT(order(kTwoPackages, {1}, devices), ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_THAT(order(kTwoPackages, {6}, devices), ElementsAre("mlx5_1", "mlx5_0"));
  EXPECT_THAT(order(kTwoPackages, {4, 5, 6, 7}, devices), ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(VerbsDeviceOrder, WithinAPackageTheDeviceOfTheOwnCacheIsFirst) {
  const std::vector<Device> devices{
      {"far", "10.1.0.0/16", {0, 1}}, {"near", "10.1.0.0/16", {4, 5}}, {"nearest", "10.1.0.0/16", {6, 7}}};
  EXPECT_THAT(order(kTwoPackages, {7}, devices), ElementsAre("nearest", "near", "far"));
}

TEST(VerbsDeviceOrder, AProcessThatMayRunAnywhereKeepsTheOrderOfTheInterfaces) {
  const std::vector<Device> devices{{"b", "10.1.0.0/16", {4, 5, 6, 7}}, {"a", "10.1.0.0/16", {0, 1, 2, 3}}};
  EXPECT_THAT(order(kTwoPackages, {0, 1, 2, 3, 4, 5, 6, 7}, devices), ElementsAre("b", "a"));
}

TEST(VerbsDeviceOrder, DevicesOfDifferentNetworksAreNotExchanged) {
  const std::vector<Device> planes{{"a0", "10.1.0.0/16", {0, 1, 2, 3}},
                                   {"b0", "10.2.0.0/16", {0, 1, 2, 3}},
                                   {"a1", "10.1.0.0/16", {4, 5, 6, 7}},
                                   {"b1", "10.2.0.0/16", {4, 5, 6, 7}}};
  EXPECT_THAT(order(kTwoPackages, {0}, planes), ElementsAre("a0", "b0", "a1", "b1"));
  EXPECT_THAT(order(kTwoPackages, {4}, planes), ElementsAre("a1", "b1", "a0", "b0"))
      << "rail 0 is of the first network in every process";
}

TEST(VerbsDeviceOrder, TheListOfTheUserIsNotChanged) {
  const std::vector<Device> devices{{"mlx5_0", "10.1.0.0/16", {0, 1, 2, 3}, 1}, {"mlx5_1", "10.1.0.0/16", {4, 5}, 0}};
  EXPECT_THAT(order(kTwoPackages, {0}, devices), ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(VerbsDeviceOrder, ADeviceWithoutAPlaceIsLast) {
  const std::vector<Device> devices{{"virtual", "10.1.0.0/16", {}}, {"mlx5_0", "10.1.0.0/16", {0, 1, 2, 3}}};
  EXPECT_THAT(order(kTwoPackages, {0}, devices), ElementsAre("mlx5_0", "virtual"));
}

TEST(VerbsDeviceOrder, ThereIsAChoiceOnlyAmongDevicesOfOneNetwork) {
  EXPECT_FALSE(has_choice({}));
  EXPECT_FALSE(has_choice({{"a", "10.1.0.0/16", 0}, {"b", "10.2.0.0/16", 0}}));
  EXPECT_FALSE(has_choice({{"a", "10.1.0.0/16", 0}, {"b", "10.1.0.0/16", 1}}));
  EXPECT_TRUE(has_choice({{"a", "10.1.0.0/16", 0}, {"b", "10.2.0.0/16", 0}, {"c", "10.1.0.0/16", 0}}));
}

TEST(VerbsDeviceOrder, ANetworkIsTheAddressUnderItsMask) {
  sockaddr_in address{};
  sockaddr_in mask{};
  address.sin_family = mask.sin_family = AF_INET;
  ASSERT_EQ(::inet_pton(AF_INET, "10.1.2.3", &address.sin_addr), 1);
  ASSERT_EQ(::inet_pton(AF_INET, "255.255.240.0", &mask.sin_addr), 1);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_EQ(network_of(*any, reinterpret_cast<const sockaddr*>(&mask)), "10.1.0.0/20");
  EXPECT_EQ(network_of(*any, nullptr), "10.1.2.3/32");
  sockaddr_in6 address6{};
  sockaddr_in6 mask6{};
  address6.sin6_family = mask6.sin6_family = AF_INET6;
  ASSERT_EQ(::inet_pton(AF_INET6, "fd00:1:2:3::4", &address6.sin6_addr), 1);
  ASSERT_EQ(::inet_pton(AF_INET6, "ffff:ffff:ffff:ffff::", &mask6.sin6_addr), 1);
  EXPECT_EQ(network_of(*reinterpret_cast<const sockaddr*>(&address6), reinterpret_cast<const sockaddr*>(&mask6)),
            "fd00:1:2:3::/64");
}

TEST(VerbsDeviceOrder, TheExplanationNamesNetworkAndNearness) {
  EXPECT_EQ(explanation_of({{"a", "10.1.0.0/16", 0, 0}, {"b", "10.1.0.0/16", 0, 2}}, {1, 0}),
            "b (10.1.0.0/16, nearness 2), a (10.1.0.0/16, nearness 0)");
}

}  // namespace
}  // namespace opal::btl::verbs
