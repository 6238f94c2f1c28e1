// SPDX-License-Identifier: Apache-2.0
// What programs that call libpmix themselves get of opalrun's servers: answers and refusals; on one host and several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

using ::testing::UnorderedElementsAre;

TEST(Pmix, WhatIsNotOfferedIsRefusedAtOnce) {
  const Outcome job = run_job({"-n", "1", helper("pmix_rank"), "unsupported"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out),
              UnorderedElementsAre("job control: not supported", "allocation: not supported", "spawn: not supported",
                                   "query: not supported", "group: not supported"));
}

TEST(Pmix, NamesForLessThanTheJobAreRefusedAndThoseOfAProcessEndWithIt) {
  const Outcome job = run_job({"-n", "2", "--timeout", "60", helper("pmix_rank"), "ranges"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_EQ(job.out, "wide: SUCCESS, narrow: NOT-FOUND\n");
}

TEST(Pmix, EveryOneOfManyRequestsAtATimeIsAnswered) {
  const Outcome job = run_job({"-n", "2", "--timeout", "60", helper("pmix_rank"), "much"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_EQ(job.out, "10000 answered, 0 wrong\n10000 answered, 0 wrong\n");
}

class PmixOnHosts : public HostJobs {
 protected:
  PmixOnHosts() : HostJobs(3) {}
};

TEST_F(PmixOnHosts, NamesOfAProcessOfAnotherHostEndWithIt) {
  const auto job = start({"--host", "h2:1,h3:1", "--timeout", "60", helper("pmix_rank"), "ranges"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "wide: SUCCESS, narrow: NOT-FOUND\n");
}

}  // namespace
}  // namespace runtime::test
