// SPDX-License-Identifier: Apache-2.0
// The same programs under the launchers that sites already have: Slurm's srun, Open MPI's mpirun, none at all; and
// opalrun inside a Slurm allocation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/harness/fake_hosts.hpp"
#include "tests/harness/program.hpp"
#include "tests/harness/slurm_cluster.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using opal::test::FakeHosts;
using opal::test::Program;
using opal::test::Scratch;
using opal::test::SlurmCluster;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Words = std::vector<std::string>;

constexpr std::chrono::seconds kLongest{60};

const Words kRing{RING_PATH};
const Words kConjugateGradient{MPI_PROGRAM_PATH, MPI_MATRIX_PATH};

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Words client(const std::string& scenario) { return {helper("client_rank"), scenario}; }

struct Ended {
  int status;
  std::string output;
};

Ended run(const Words& command) {
  const Scratch scratch;
  Program program{command, scratch.file("log")};
  const int status = program.wait(kLongest);
  return {status, program.output()};
}

/// What holds under every launcher: `run` starts a program on `ranks` ranks.
template <class Run>
void expect_programs_work(Run run, unsigned ranks) {
  for (const char* const scenario : {"exchange", "collect"}) {
    const Ended ended = run(client(scenario));
    EXPECT_EQ(ended.status, 0) << scenario << ": " << ended.output;
    EXPECT_THAT(lines_of(ended.output), SizeIs(ranks)) << ended.output;
    EXPECT_THAT(lines_of(ended.output), Each(HasSubstr(fmt::format("of {},", ranks)))) << ended.output;
  }
  for (const char* const scenario : {"without_fence", "keys", "secret"}) {
    const Ended ended = run(client(scenario));
    EXPECT_EQ(ended.status, 0) << scenario << ": " << ended.output;
  }
  const Ended ring = run(kRing);
  EXPECT_EQ(ring.status, 0) << ring.output;
  EXPECT_THAT(ring.output, HasSubstr(fmt::format("ring of {} ranks", ranks)));
  EXPECT_THAT(ring.output, HasSubstr(": right"));
  const Ended solved = run(kConjugateGradient);
  EXPECT_EQ(solved.status, 0) << solved.output;
  EXPECT_THAT(solved.output, HasSubstr(fmt::format("{} ranks", ranks)));
  EXPECT_THAT(solved.output, HasSubstr(": right"));
  for (const char* const program : {"messages", "collectives"}) {
    const Ended ended = run({fmt::format("{}/mpi_{}", MPI_TESTS_DIRECTORY, program)});
    EXPECT_EQ(ended.status, 0) << program << ": " << ended.output;
  }
}

/// Open MPI's launcher, on this host.
class Mpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null && mpirun --version | grep -q 'Open MPI'") != 0) {
      GTEST_SKIP() << "needs mpirun: that of Open MPI (package openmpi-bin)";
    }
  }
  /// mpirun may hang when a rank aborted; `timeout` ends it and its children.
  static Ended on(unsigned ranks, const Words& program) {
    return run(Words{"/usr/bin/env", "timeout", "-k", "5", "50", "mpirun", "--allow-run-as-root", "--oversubscribe",
                     "--mca", "oob_tcp_if_include", "lo", "-n", std::to_string(ranks)} +
               program);
  }
};

TEST_F(Mpirun, ProgramsOfOneAndFourRanksWork) {
  for (const unsigned ranks : {1U, 4U}) {
    expect_programs_work([&](const Words& program) { return on(ranks, program); }, ranks);
  }
}

TEST_F(Mpirun, AnAbortIsExplainedAndEndsTheJob) {
  const Ended ended = on(3, client("abort"));
  EXPECT_THAT(ended.output, HasSubstr("rank 1 aborted the job with status 9: no convergence"));
  EXPECT_EQ(ended.status, 9) << ended.output;
}

TEST_F(Mpirun, ARankThatFailsEndsTheJobWithItsStatus) {
  const Ended ended =
      on(3, {"sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 7; exec " + helper("client_rank") + " forever"});
  EXPECT_EQ(ended.status, 7) << ended.output;
}

/// Slurm on two hosts.
class Slurm : public ::testing::Test {
 protected:
  static constexpr unsigned kHosts = 2;
  void SetUp() override {
    std::string why;
    hosts = FakeHosts::make(kHosts, directory(), why);
    if (hosts) cluster = SlurmCluster::make(*hosts, kHosts, 4, directory(), why);
    if (!cluster && why.starts_with("needs ")) GTEST_SKIP() << why;
    ASSERT_NE(cluster, nullptr) << why;
  }
  void TearDown() override {
    cluster.reset();
    hosts.reset();
    std::filesystem::remove_all(directory());
  }
  static std::string directory() {
    const std::string path = fmt::format("{}opal-slurm-{}", ::testing::TempDir(), ::getpid());
    std::filesystem::create_directories(path);
    return path;
  }
  /// `ranks` in all, the same number on each host.
  [[nodiscard]] Ended srun(unsigned ranks, const Words& program) const {
    return run(cluster->command(Words{"srun", "--quiet", "--mpi=pmix", "-N", std::to_string(kHosts), "-n",
                                      std::to_string(ranks), "--overcommit"} +
                                program));
  }
  [[nodiscard]] Ended in_allocation(const Words& command) const {
    return run(
        cluster->command(Words{"salloc", "--quiet", "-N", std::to_string(kHosts), "--ntasks-per-node=2"} + command));
  }
  std::unique_ptr<FakeHosts> hosts;
  std::unique_ptr<SlurmCluster> cluster;
};

TEST_F(Slurm, ProgramsOfTwoAndEightRanksWorkUnderSrun) {
  for (const unsigned ranks : {2U, 8U}) {
    expect_programs_work([&](const Words& program) { return srun(ranks, program); }, ranks);
  }
  EXPECT_TRUE(cluster->becomes_idle());
}

TEST_F(Slurm, AFenceIsABarrierBetweenHosts) {
  const Ended ended = srun(4, client("barrier") + Words{directory()});
  EXPECT_EQ(ended.status, 0) << ended.output;
}

/// Ranks of other hosts learn of the death when a rank of the dead one's host ends the job, or by Slurm's PMIxTimeout.
TEST_F(Slurm, ARankKilledInAFenceEndsTheStepAlsoWhenItIsAloneOnItsHost) {
  for (const unsigned ranks : {4U, 2U}) {
    const Ended ended = srun(ranks, client("die_in_fence") + Words{"abort"});
    EXPECT_NE(ended.status, 0) << ended.output;
    EXPECT_NE(ended.status, -1) << "it did not end: " << ended.output;
    EXPECT_TRUE(cluster->becomes_idle());
  }
}

TEST_F(Slurm, ARankOfMpiThatDiesEndsTheStep) {
  const Ended ended = srun(4, {helper("mpi_rank"), "segv"});
  EXPECT_NE(ended.status, 0) << ended.output;
  EXPECT_NE(ended.status, -1) << "it did not end: " << ended.output;
  EXPECT_TRUE(cluster->becomes_idle());
}

TEST_F(Slurm, AnAbortIsExplained) {
  const Ended ended = srun(4, client("abort"));
  EXPECT_EQ(ended.status, 9) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("rank 1 aborted the job with status 9: no convergence"));
  EXPECT_TRUE(cluster->becomes_idle());
}

TEST_F(Slurm, OpalrunUsesTheHostsOfItsAllocation) {
  const Ended ended =
      in_allocation({OPALRUN_PATH, "sh", "-c", "echo $(hostname) $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(lines_of(ended.output),
              ::testing::UnorderedElementsAre("h1 0 of 4", "h1 1 of 4", "h2 2 of 4", "h2 3 of 4"));
  EXPECT_TRUE(cluster->becomes_idle());
}

/// The hosts share this machine's few cores, to which opalrun would bind the ranks of each.
TEST_F(Slurm, ProgramsWorkUnderOpalrunInAnAllocation) {
  expect_programs_work(
      [&](const Words& program) {
        return in_allocation(Words{OPALRUN_PATH, "--bind", "none"} + program);
      },
      4);
  EXPECT_TRUE(cluster->becomes_idle());
}

TEST(Singleton, ProgramsWorkWithoutALauncher) {
  expect_programs_work([](const Words& program) { return run(program); }, 1);
}

}  // namespace
}  // namespace runtime::test
