// SPDX-License-Identifier: Apache-2.0
#include "opal/topology/topology.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace opal::topology {
namespace {

cpu_set_t affinity_of_this_thread() {
  cpu_set_t cpus;
  EXPECT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

cpu_set_t set_of(const Cpus& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::uint32_t cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

std::size_t thread_count(const Topology& topology) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < topology.cores().size(); ++i) count += topology.cores()[i].size();
  return count;
}

TEST(Topology, CountsExactlyTheHardwareThreadsOfThisProcess) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  EXPECT_EQ(thread_count(topology), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  EXPECT_GE(topology.cores().size(), 1u);
}

TEST(Topology, CoresAreDisjointAndWithinWhatIsAllowed) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (std::size_t i = 0; i < topology.cores().size(); ++i) {
    const cpu_set_t core = set_of(topology.cores()[i]);
    cpu_set_t overlap;
    CPU_AND(&overlap, &core, &seen);
    EXPECT_EQ(CPU_COUNT(&overlap), 0) << "core " << i;
    CPU_AND(&overlap, &core, &allowed);
    EXPECT_TRUE(CPU_EQUAL(&overlap, &core)) << "core " << i;
    CPU_OR(&seen, &seen, &core);
  }
  EXPECT_TRUE(CPU_EQUAL(&seen, &allowed));
}

/// More than a cpu_set_t has room for.
TEST(Topology, HostsWithMoreThan1024ProcessorsAreKnownWhole) {
  ::setenv("HWLOC_SYNTHETIC", "package:2 core:1024 pu:2", 1);
  const auto opened = Topology::open();
  ::unsetenv("HWLOC_SYNTHETIC");
  const Topology& topology = opened.value();
  EXPECT_EQ(topology.cores().size(), 2048U);
  EXPECT_EQ(thread_count(topology), 4096U);
  EXPECT_EQ(topology.cores()[2047], (Cpus{4094, 4095}));
  const std::vector<Cpus> packages = topology.cpus_of(Shared::package);
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[1].front(), 2048U);
  EXPECT_EQ(packages[1].back(), 4095U);
}

/// Two packages of two L3 caches with two cores each.
Topology with_packages() {
  ::setenv("HWLOC_SYNTHETIC", "package:2 l3:2 core:2 pu:1", 1);
  auto opened = Topology::open();
  ::unsetenv("HWLOC_SYNTHETIC");
  return std::move(opened).value();
}

TEST(Topology, SetsAreTheNearerTheSmallerThePartThatContainsBoth) {
  const Topology topology = with_packages();
  const std::size_t core = topology.nearness({0}, {0});
  const std::size_t cache = topology.nearness({0}, {1});
  const std::size_t package = topology.nearness({0}, {2, 3});
  EXPECT_GT(core, cache);
  EXPECT_GT(cache, package);
  EXPECT_GT(package, 0U);
  EXPECT_EQ(topology.nearness({0}, {4}), 0U);
  EXPECT_EQ(topology.nearness({2, 3}, {0}), package);
  EXPECT_EQ(topology.nearness(topology.usable_cpus(), {0}), 0U) << "a process that may run anywhere";
}

TEST(Topology, ProcessorsThatThisProcessDoesNotKnowAreFar) {
  const Topology topology = with_packages();
  EXPECT_EQ(topology.nearness({0}, {8, 9}), 0U);
  EXPECT_EQ(topology.nearness({0}, {}), 0U);
  EXPECT_EQ(topology.nearness({0}, {1, 9}), topology.nearness({0}, {1})) << "the known ones count";
}

TEST(Topology, UsableCpusAreThoseOfAllCores) {
  EXPECT_EQ(with_packages().usable_cpus(), (Cpus{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Topology, ReadsProcessorsFromAFileOfTheKernel) {
  const auto cpus = read_cpus("/sys/devices/system/cpu/cpu0/topology/thread_siblings");
  ASSERT_TRUE(cpus);
  EXPECT_EQ(cpus->front(), 0U);
  EXPECT_EQ(read_cpus("/nonexistent/local_cpus").error().code, Errc::os);
}

}  // namespace
}  // namespace opal::topology
