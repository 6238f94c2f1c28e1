// SPDX-License-Identifier: Apache-2.0
// The forwarding of stdin to ranks, without any rank.
#include "runtime/daemon/input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runtime::daemon {
namespace {

using ::testing::ElementsAre;

TEST(InputFeeder, TellsEachReceiverTheEndOnceIfThereIsNothingToReadFrom) {
  const auto loop = event::Loop::create().value();
  std::vector<std::string> texts[2];
  InputFeeder feeder{*loop,
                     Fd{},
                     {[&](const std::string& text) { texts[0].push_back(text); },
                      [&](const std::string& text) { texts[1].push_back(text); }}};
  feeder.start();
  feeder.recheck();
  feeder.credit(0, 0);
  feeder.drop(1);
  EXPECT_THAT(texts[0], ElementsAre(""));
  EXPECT_THAT(texts[1], ElementsAre(""));
}

}  // namespace
}  // namespace runtime::daemon
