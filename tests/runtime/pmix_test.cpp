// SPDX-License-Identifier: Apache-2.0
// What programs that call libpmix themselves get of opalrun's servers: answers and refusals; on one host and several.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opal/core/environment.hpp"
#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Pmix, QuestionsAboutTheJobAreAnswered) {
  const Outcome job = run_job({"-n", "2", helper("pmix_rank"), "query"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  const std::string here = opal::host_name();
  EXPECT_THAT(lines_of(job.out),
              UnorderedElementsAre(fmt::format("job: rank 0 on {}", here), fmt::format("job: rank 1 on {}", here),
                                   fmt::format("local: rank 0 on {}", here), fmt::format("local: rank 1 on {}", here),
                                   "another job: NOT-FOUND", "no rank: NOT-FOUND", "rank 0: SUCCESS",
                                   "queues and namespaces: PARTIAL SUCCESS", "queues: NOT-SUPPORTED",
                                   "members of no group: BAD-PARAM"));
}

TEST(Pmix, WhatIsNotOfferedIsRefusedAtOnce) {
  const Outcome job = run_job({"-n", "1", helper("pmix_rank"), "unsupported"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out),
              UnorderedElementsAre("job control: not supported", "allocation: not supported", "spawn: not supported"));
}

TEST(Pmix, GroupsAreKnownAsLongAsTheyExist) {
  const Outcome job = run_job({"-n", "3", helper("pmix_rank"), "groups"});
  EXPECT_EQ(job.status, 0) << job.out << job.err;
  EXPECT_THAT(lines_of(job.out), UnorderedElementsAre("1 groups evens 0 2", "1 groups evens 0 2", "0 groups NOT-FOUND",
                                                      "0 groups NOT-FOUND"));
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

TEST_F(PmixOnHosts, EveryServerKnowsWhereAllRanksAre) {
  const auto job = start({"--host", "h2:2,h3:1", helper("pmix_rank"), "query"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  for (const char* const line :
       {"job: rank 0 on h2", "job: rank 1 on h2", "job: rank 2 on h3", "local: rank 0 on h2", "local: rank 1 on h2"}) {
    EXPECT_THAT(lines_of(outcome.out), Contains(line));
  }
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("local: rank 2")));
}

TEST_F(PmixOnHosts, NamesOfAProcessOfAnotherHostEndWithIt) {
  const auto job = start({"--host", "h2:1,h3:1", "--timeout", "60", helper("pmix_rank"), "ranges"});
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "wide: SUCCESS, narrow: NOT-FOUND\n");
}

}  // namespace
}  // namespace runtime::test
