// SPDX-License-Identifier: Apache-2.0
// How often a module without traffic asks the kernel for some, counted instruction by instruction.
#include <unistd.h>

#include "tests/conformance/side.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::btl::tcp {
namespace {

using test::count_steps;
using test::Side;
using test::step_mark;

TEST(TcpCost, AfterASleepThatAnotherTransportEndedTheKernelIsAskedOnce) {
  constexpr int kRounds = 16;
  const auto pieces = count_steps([] {
    Side side{"tcp"};
    for (int round = 0; round < 1000; ++round) side.module().progress(64);
    if (!side.module().arm()) ::_exit(3);
    step_mark();
    for (int round = 0; round < kRounds; ++round) side.module().progress(64);
    step_mark();
  });
  if (!pieces) GTEST_SKIP() << "needs ptrace: x86-64 and a kernel that lets a process trace its child";
  ASSERT_EQ(pieces->size(), 1U);
  EXPECT_EQ((*pieces)[0].system_calls, 1U);
}

}  // namespace
}  // namespace opal::btl::tcp
