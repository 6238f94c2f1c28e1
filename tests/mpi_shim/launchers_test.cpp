// SPDX-License-Identifier: Apache-2.0
// The shim's test programs where their ranks are not all on one host, and under the launchers of others: opalrun on two
// hosts made of namespaces (sm within a host, tcp between them), Slurm's srun there, and Open MPI's mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "tests/harness/fake_hosts.hpp"
#include "tests/harness/program.hpp"
#include "tests/harness/slurm_cluster.hpp"

namespace {

using opal::test::FakeHosts;
using opal::test::Program;
using opal::test::Scratch;
using opal::test::SlurmCluster;
using Words = std::vector<std::string>;

/// Generous: it ends what hangs, it measures nothing.
constexpr std::chrono::seconds kLongest{240};

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

void expect_success(const Words& command) {
  const Scratch scratch;
  Program program{command, scratch.file("log")};
  const int status = program.wait(kLongest);
  EXPECT_EQ(status, 0) << (status == -1 ? "it did not end: " : "") << program.output();
}

/// `GetParam()` is the name of a program; `program()` how it is called.
class OfEachProgram : public ::testing::TestWithParam<const char*> {
 protected:
  static Words program() { return {fmt::format("{}/mpi_{}", MPI_TESTS_DIRECTORY, GetParam())}; }
};

/// Two hosts that live as long as the suite's tests.
class OnTwoHosts : public OfEachProgram {
 protected:
  static void SetUpTestSuite() {
    directory = new Scratch;
    hosts = FakeHosts::make(2, directory->file(""), why).release();
  }
  static void TearDownTestSuite() {
    delete std::exchange(hosts, nullptr);
    delete std::exchange(directory, nullptr);
  }
  void SetUp() override {
    if (hosts == nullptr && why.starts_with("needs ")) GTEST_SKIP() << why;
    ASSERT_NE(hosts, nullptr) << why;
  }
  /// The hosts share this machine's few cores, to which opalrun would bind the ranks of each.
  static Words opalrun(const Words& options) {
    return Words{"/usr/bin/env"} + hosts->on_network_of(1) +
           Words{OPALRUN_PATH, "--launch-agent", hosts->agent(), "--bind", "none", "--timeout", "200"} + options;
  }
  static inline Scratch* directory = nullptr;
  static inline FakeHosts* hosts = nullptr;
  static inline std::string why;
};

TEST_P(OnTwoHosts, WorksUnderOpalrun) { expect_success(opalrun({"--host", "h1:2,h2:2"}) + program()); }

/// Ranks of the two hosts alternate, so that those of a host do not follow one another; for programs whose messages
/// depend on the hosts of the ranks.
class OnTwoHostsInTurn : public OnTwoHosts {};
TEST_P(OnTwoHostsInTurn, Works) { expect_success(opalrun({"--host", "h1:3,h2:2", "--map", "node"}) + program()); }

class UnderSlurm : public OnTwoHosts {
 protected:
  static void SetUpTestSuite() {
    OnTwoHosts::SetUpTestSuite();
    if (hosts != nullptr) cluster = SlurmCluster::make(*hosts, 2, 4, directory->file(""), why).release();
  }
  static void TearDownTestSuite() {
    delete std::exchange(cluster, nullptr);
    OnTwoHosts::TearDownTestSuite();
  }
  void SetUp() override {
    if (cluster == nullptr && why.starts_with("needs ")) GTEST_SKIP() << why;
    ASSERT_NE(cluster, nullptr) << why;
  }
  static inline SlurmCluster* cluster = nullptr;
};

TEST_P(UnderSlurm, WorksOnTwoHosts) {
  expect_success(cluster->command({"srun", "--quiet", "--mpi=pmix", "-N", "2", "-n", "4", "--overcommit"}) + program());
}

class UnderMpirun : public OfEachProgram {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null && mpirun --version | grep -q 'Open MPI'") != 0) {
      GTEST_SKIP() << "needs mpirun: that of Open MPI (package openmpi-bin)";
    }
  }
  /// mpirun may hang when a rank aborted; `timeout` ends it and its children.
  static Words mpirun(const Words& options) {
    return Words{"/usr/bin/env",
                 "timeout",
                 "-k",
                 "5",
                 "200",
                 "mpirun",
                 "--allow-run-as-root",
                 "--oversubscribe",
                 "--mca",
                 "oob_tcp_if_include",
                 "lo"} +
           options;
  }
};

TEST_P(UnderMpirun, WorksOnOneHost) { expect_success(mpirun({"-n", "3"}) + program()); }

/// The program takes the number of its application in the job.
class UnderMpirunInTwoApplications : public UnderMpirun {};
TEST_P(UnderMpirunInTwoApplications, Works) {
  expect_success(mpirun({"-n", "1"}) + program() + Words{"0", ":", "-n", "2"} + program() + Words{"1"});
}

constexpr const char* kPrograms[] = {"messages",
                                     "collectives",
                                     "shared_collectives",
                                     "rooted_collectives",
                                     "requests",
                                     "communicators",
                                     "intercommunicators",
                                     "topologies",
                                     "cancel",
                                     "objects",
                                     "windows",
                                     "window_accesses",
                                     "passive",
                                     "threads"};
constexpr const char* kOfHosts[] = {"collectives", "shared_collectives", "rooted_collectives", "intercommunicators",
                                    "windows"};
std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Mpi, OnTwoHosts, ::testing::ValuesIn(kPrograms), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, OnTwoHostsInTurn, ::testing::ValuesIn(kOfHosts), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, UnderSlurm, ::testing::ValuesIn(kPrograms), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, UnderMpirun, ::testing::ValuesIn(kPrograms), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, UnderMpirunInTwoApplications, ::testing::Values("objects"), name_of);

}  // namespace
