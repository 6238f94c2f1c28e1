// SPDX-License-Identifier: Apache-2.0
// What GPU support costs a process without GPU memory: counted instructions, exact on every machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/gpu/pair.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::gpu_pair {
namespace {

using opal::test::count_steps;
using opal::test::kTag;
using opal::test::Side;
using opal::test::step_mark;
using opal::test::Steps;

constexpr const char* kNeeds = "needs ptrace: x86-64 and a kernel that lets a process trace its child";

struct Counter {
  void on_message(btl::Delivery&) noexcept { ++count; }
  std::uint64_t count = 0;
};

/// Programs that use GPUs are linked with the driver; without a call of it the linker leaves it out.
bool driver_is_linked() {
  int version = 0;
  return cuDriverGetVersion(&version) == CUDA_SUCCESS;
}

/// A short message by fast box, the round that receives it, an idle round: of two modules in one process.
std::optional<std::vector<Steps>> message_over(const char* transport) {
  return count_steps([transport] {
    memory::start_monitor({});
    if (!driver_is_linked() || !gpu::start({}).loaded) ::_exit(2);
    Side receiver{transport};
    Side sender{transport};
    Counter counter;
    if (!receiver.handlers().set(kTag + 1, btl::bind<&Counter::on_message>(counter, "count"))) ::_exit(3);
    btl::Endpoint& route = *sender.connect(receiver);
    const std::uint64_t word = 1;
    for (std::uint64_t i = 1; i <= 40; ++i) {
      if (sender.module().send_inline(route, kTag + 1, bytes_of(word), {}) != Post::done) ::_exit(4);
      while (counter.count != i) receiver.module().progress(64);
    }
    receiver.module().progress(64);
    step_mark();
    if (sender.module().send_inline(route, kTag + 1, bytes_of(word), {}) != Post::done) ::_exit(5);
    step_mark();
    step_mark();
    receiver.module().progress(64);
    step_mark();
    step_mark();
    receiver.module().progress(64);
    step_mark();
    if (counter.count != 41) ::_exit(6);
  });
}

TEST(GpuCost, R15HostMessagesTakeSmsPathInstructionForInstruction) {
  const auto sm = message_over("sm");
  const auto smcuda = message_over("smcuda");
  if (!sm || !smcuda) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(sm->size(), 3u);
  ASSERT_EQ(smcuda->size(), 3u);
  constexpr const char* kPieces[] = {"send", "receive", "idle round"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*smcuda)[i].instructions, (*sm)[i].instructions) << kPieces[i];
    EXPECT_EQ((*smcuda)[i].locked, 0u) << kPieces[i];
    EXPECT_EQ((*smcuda)[i].system_calls, 0u) << kPieces[i];
  }
}

/// A send through a Context in a process without a driver, and with one that the program uses.
std::optional<std::vector<Steps>> send_of_context(bool driver) {
  return count_steps([driver] {
    config::Store store;
    store.set("am_transports", "sm");
    store.set("gpu_use", driver ? "auto" : "off");
    auto a = am::Context::open(store);
    auto b = am::Context::open(store);
    Counter counter;
    if (!a || !b || gpu::active() != driver) ::_exit(2);
    if (!(*b)->set_handler(kTag, btl::bind<&Counter::on_message>(counter, "count"))) ::_exit(3);
    auto peer = (*a)->connect((*b)->address());
    if (!peer) ::_exit(4);
    const std::uint64_t word = 1;
    for (std::uint64_t i = 1; i <= 40; ++i) {
      if ((*peer)->send_inline(kTag, {}, bytes_of(word)) != Post::done) ::_exit(5);
      while (counter.count != i) (*b)->progress();
    }
    step_mark();
    const Post post = (*peer)->send_inline(kTag, {}, bytes_of(word));
    step_mark();
    if (post != Post::done) ::_exit(6);
    while (counter.count != 41) (*b)->progress();
    step_mark();
    const Post header_only = (*peer)->send_inline(kTag, bytes_of(word), {});
    step_mark();
    if (header_only != Post::done) ::_exit(7);
  });
}

TEST(GpuCost, ClassifyingAHostBufferIsALookupWithADriverAndNothingWithout) {
  const auto without = send_of_context(false);
  const auto with = send_of_context(true);
  if (!without || !with) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(without->size(), 2u);
  // Within the budget of a send (tests/btl/sm/cost_test.cpp): the branch is the one for waiting messages.
  EXPECT_LE((*without)[1].instructions, 150u);
  EXPECT_LE((*with)[0].instructions, (*without)[0].instructions + 60) << "a known page is looked up in a table";
  EXPECT_EQ((*with)[0].locked, 0u);
  EXPECT_EQ((*with)[0].system_calls, 0u);
}

}  // namespace
}  // namespace opal::gpu_pair
