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

TEST(TcpCost, ABatchOfShortMessagesIsOneSystemCall) {
  const auto pieces = count_steps([] {
    Side a{"tcp"};
    Side b{"tcp"};
    Endpoint& to = *a.connect(b);
    const auto send = [&] { return a.module().send_inline(to, test::kTag, {}, bytes_of(std::uint64_t{1})); };
    for (std::size_t received = 1; received <= 2; ++received) {  // the second one warms up the batch
      a.module().begin_batch();
      if (send() != Post::done) ::_exit(3);
      a.module().end_batch();
      if (!test::pump([&] { return b.received.size() == received; }, a, b)) ::_exit(4);
    }
    step_mark();
    a.module().begin_batch();
    for (int i = 0; i < 100; ++i) (void)send();
    a.module().end_batch();
    step_mark();
  });
  if (!pieces) GTEST_SKIP() << "needs ptrace: x86-64 and a kernel that lets a process trace its child";
  ASSERT_EQ(pieces->size(), 1U);
  EXPECT_EQ((*pieces)[0].system_calls, 1U);
}

}  // namespace
}  // namespace opal::btl::tcp
