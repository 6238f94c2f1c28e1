// SPDX-License-Identifier: Apache-2.0
#include "opal/topology/topology.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "opal/topology/locality.hpp"

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

TEST(Topology, CountsExactlyTheHardwareThreadsOfThisProcess) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  EXPECT_EQ(topology.thread_count(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  EXPECT_GE(topology.core_count(), 1u);
  EXPECT_LE(topology.core_count(), topology.thread_count());
}

TEST(Topology, CoresAreDisjointAndWithinWhatIsAllowed) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (std::size_t i = 0; i < topology.core_count(); ++i) {
    const cpu_set_t core = set_of(topology.cpus_of_core(i).value());
    cpu_set_t overlap;
    CPU_AND(&overlap, &core, &seen);
    EXPECT_EQ(CPU_COUNT(&overlap), 0) << "core " << i;
    CPU_AND(&overlap, &core, &allowed);
    EXPECT_TRUE(CPU_EQUAL(&overlap, &core)) << "core " << i;
    CPU_OR(&seen, &seen, &core);
  }
  EXPECT_TRUE(CPU_EQUAL(&seen, &allowed));
}

TEST(Topology, RefusesACoreThatIsNotThere) {
  const Topology topology = Topology::open().value();
  EXPECT_EQ(topology.cpus_of_core(topology.core_count()).error().code, Errc::invalid_argument);
  EXPECT_EQ(topology.bind(0, topology.core_count()).error().code, Errc::invalid_argument);
}

/// More than a cpu_set_t has room for.
TEST(Topology, HostsWithMoreThan1024ProcessorsAreKnownWhole) {
  ::setenv("HWLOC_SYNTHETIC", "package:2 core:1024 pu:2", 1);
  const auto opened = Topology::open();
  ::unsetenv("HWLOC_SYNTHETIC");
  const Topology& topology = opened.value();
  EXPECT_EQ(topology.core_count(), 2048U);
  EXPECT_EQ(topology.thread_count(), 4096U);
  EXPECT_EQ(topology.cpus_of_core(2047).value(), (Cpus{4094, 4095}));
  const std::vector<Cpus> packages = topology.cpus_of(Shared::package);
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[1].front(), 2048U);
  EXPECT_EQ(packages[1].back(), 4095U);
}

TEST(Topology, BindsTheCallingThreadAndSaysSoInItsLocality) {
  const Topology topology = Topology::open().value();
  const std::size_t last = topology.core_count() - 1;
  std::thread{[&] {  // a thread of its own, so that the other tests keep their affinity
    ASSERT_TRUE(topology.bind(0, last));
    const cpu_set_t bound = affinity_of_this_thread();
    const cpu_set_t wanted = set_of(topology.cpus_of_core(last).value());
    EXPECT_TRUE(CPU_EQUAL(&bound, &wanted));
    EXPECT_EQ(nearest_shared(topology.locality(), topology.locality()), Shared::core);
    EXPECT_EQ(Topology::open().value().core_count(), 1u) << "a bound process sees one usable core";
  }}
      .join();
}

TEST(Topology, BindsAnotherProcess) {
  const Topology topology = Topology::open().value();
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(hold[1]);
    char byte;
    ::_exit(::read(hold[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(hold[0]);
  EXPECT_TRUE(topology.bind(child, 0));
  cpu_set_t bound;
  EXPECT_EQ(::sched_getaffinity(child, sizeof bound, &bound), 0);
  const cpu_set_t wanted = set_of(topology.cpus_of_core(0).value());
  EXPECT_TRUE(CPU_EQUAL(&bound, &wanted));
  ::close(hold[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(topology.bind(child, 0).error().code, Errc::os) << "the process is gone";
}

TEST(Locality, FindsTheNearestThingTwoPlacesShare) {
  const char* here = "SK0:NM0:L30:L22:CR2";
  EXPECT_EQ(nearest_shared(here, here), Shared::core);
  EXPECT_EQ(nearest_shared(here, "SK0:NM0:L30:L22:CR3"), Shared::l2_cache);
  EXPECT_EQ(nearest_shared(here, "SK0:NM0:L30:L21:CR1"), Shared::l3_cache);
  EXPECT_EQ(nearest_shared(here, "SK0:NM0:L31:L21:CR1"), Shared::numa_node);
  EXPECT_EQ(nearest_shared(here, "SK0:NM1:L31:L21:CR9"), Shared::package);
  EXPECT_EQ(nearest_shared(here, "SK1:NM1:L31:L21:CR9"), Shared::host);
}

TEST(Locality, UnderstandsRangesAndSurvivesRubbish) {
  EXPECT_EQ(nearest_shared("SK0:CR0-3,8", "SK0:CR2"), Shared::core);
  EXPECT_EQ(nearest_shared("SK0:CR0-3,8", "SK0:CR4-7"), Shared::package);
  for (const char* rubbish : {"", ":", "SK", "CRx", "SK0-:CR--", "SK:CR:L3"}) {
    EXPECT_EQ(nearest_shared(rubbish, "SK1:CR7"), Shared::host) << rubbish;
  }
}

}  // namespace
}  // namespace opal::topology
