// SPDX-License-Identifier: Apache-2.0
// What ends an MPI job is named: the rank that died first, and a peer that cannot be reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::HasSubstr;

TEST(Blame, TheRankThatDiedIsNamedAndNotThoseThatAbortBecauseOfIt) {
  const std::pair<const char*, int> ends[] = {{"segv", 128 + SIGSEGV}, {"abort", 128 + SIGABRT}, {"exit", 3}};
  for (int round = 0; round < 5; ++round) {
    for (const auto& [what, status] : ends) {
      for (const char* const ranks : {"2", "4"}) {
        const Outcome job = run_job({"-n", ranks, "--grace", "0.5", helper("mpi_rank"), what});
        EXPECT_EQ(job.status, status) << what << " of " << ranks << ": " << job.err;
        EXPECT_THAT(job.err, HasSubstr("rank 1 (pid ")) << what << " of " << ranks;
      }
    }
  }
}

TEST(Blame, APeerThatNoTransportReachesEndsTheJobWithAnError) {
  const Outcome job =
      run_job({"-n", "2", "--grace", "0.5", "--set", "am_transports=self", helper("mpi_rank"), "leave"});
  EXPECT_NE(job.status, 0);
  EXPECT_THAT(job.err, HasSubstr("no transport reaches"));
}

}  // namespace
}  // namespace runtime::test
