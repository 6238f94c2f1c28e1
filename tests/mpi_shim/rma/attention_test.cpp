// SPDX-License-Identifier: Apache-2.0
// Counted messages (mpi_shim/rma/target/attention.hpp), with a counter in place of the transport.
#include "mpi_shim/rma/target/attention.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace mpi_shim::rma {
namespace {

TEST(Attention, NothingIsCountedForATargetThatDoesNotPoll) {
  Attention target;
  MessageCount count;
  EXPECT_FALSE(count.count(target));
  EXPECT_EQ(count.get(), 0U);
  target.set(Attention::State::polls);
  EXPECT_TRUE(count.count(target));
  EXPECT_EQ(count.get(), 1U);
  target.set(Attention::State::computes);
  EXPECT_FALSE(count.count(target));
  target.set(Attention::State::sleeps);
  EXPECT_FALSE(count.count(target));
  EXPECT_EQ(count.get(), 1U);
}

TEST(Attention, NoMessageComesAfterTheEndOfPolling) {
  constexpr int kPhases = 2000;
  constexpr int kLooks = 200;
  constexpr std::uint32_t kMessages = 100000;
  Attention target;
  MessageCount count;
  std::atomic<std::uint32_t> sent{0};
  std::atomic<bool> over{false};
  std::thread origin{[&] {
    while (!over) {
      if (count.count(target)) sent.fetch_add(1);
    }
  }};
  std::uint32_t executed = 0;
  std::uint32_t late = 0;
  for (int phase = 0; phase < kPhases || executed < kMessages; ++phase) {
    target.set(Attention::State::polls);
    for (int look = 0; look < phase % kLooks; ++look) executed = sent.load();
    target.set(Attention::State::computes);
    opal::full_fence();
    while (count.get() != executed) executed = sent.load();
    for (int look = 0; look < kLooks; ++look) late += sent.load() - executed;
  }
  over = true;
  origin.join();
  EXPECT_EQ(late, 0U);
  EXPECT_EQ(count.get(), executed);
}

}  // namespace
}  // namespace mpi_shim::rma
