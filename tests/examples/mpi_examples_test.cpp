// SPDX-License-Identifier: Apache-2.0
// The MPI example of docs/examples under opalrun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/program.hpp"

namespace opal::test {
namespace {

using ::testing::HasSubstr;

const std::string kBin = OPAL_TEST_BIN;
const std::string kMatrix = OPAL_TEST_SOURCE "/docs/examples/data/lshape_diffusion.mtx";

class ConjugateGradient : public ::testing::TestWithParam<int> {};

TEST_P(ConjugateGradient, SolvesTheSystemOnAnyNumberOfRanks) {
  const Scratch scratch;
  Program job{{kBin + "/opalrun", "-n", std::to_string(GetParam()), kBin + "/conjugate_gradient", kMatrix},
              scratch.file("log")};
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr(": right"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ConjugateGradient, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

TEST(ConjugateGradient, AFileThatIsNoMatrixIsAnErrorOnEveryRank) {
  const Scratch scratch;
  Program job{{kBin + "/opalrun", "-n", "2", kBin + "/conjugate_gradient", "/dev/null"}, scratch.file("log")};
  EXPECT_NE(job.wait(), 0);
  EXPECT_THAT(job.output(), HasSubstr("not a real coordinate matrix"));
}

}  // namespace
}  // namespace opal::test
