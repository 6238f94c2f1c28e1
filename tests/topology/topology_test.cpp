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

TEST(Topology, CountsExactlyTheHardwareThreadsOfThisProcess) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  EXPECT_EQ(topology.thread_count(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  EXPECT_GE(topology.core_count(), 1u);
  EXPECT_LE(topology.core_count(), topology.thread_count());
  EXPECT_GE(topology.effective_core_count(), 1u);
  EXPECT_LE(topology.effective_core_count(), topology.core_count());
}

TEST(Topology, CoresAreDisjointAndWithinWhatIsAllowed) {
  const Topology topology = Topology::open().value();
  const cpu_set_t allowed = affinity_of_this_thread();
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (std::size_t i = 0; i < topology.core_count(); ++i) {
    const cpu_set_t core = topology.cpus_of_core(i).value();
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

TEST(Topology, BindsTheCallingThreadAndSaysSoInItsLocality) {
  const Topology topology = Topology::open().value();
  const std::size_t last = topology.core_count() - 1;
  std::thread{[&] {  // a thread of its own, so that the other tests keep their affinity
    ASSERT_TRUE(topology.bind(0, last));
    const cpu_set_t bound = affinity_of_this_thread();
    const cpu_set_t wanted = topology.cpus_of_core(last).value();
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
  const cpu_set_t wanted = topology.cpus_of_core(0).value();
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

TEST(CpuQuota, ReadsCpuMaxAndIgnoresEverythingElse) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  for (const char* rubbish : {"", "12", "12 ", "12 x", "0 100", "100 0", "-5 10", "inf 10", "1 nan"}) {
    EXPECT_EQ(parse_cpu_max(rubbish), std::nullopt) << rubbish;
  }
}

}  // namespace
}  // namespace opal::topology
