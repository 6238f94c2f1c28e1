// SPDX-License-Identifier: Apache-2.0
// The end of a launch agent makes the host lost, for the right reason, until the daemon's first message along the tree.
#include "runtime/daemon/remote_host.hpp"

#include <gtest/gtest.h>

namespace runtime::daemon {
namespace {

constexpr std::chrono::seconds kLongest{60};

class RemoteHostTest : public ::testing::Test {
 protected:
  /// Starts an agent that ends with status 3, and no daemon.
  void start() { host.start_daemon({"sh", "-c", "cat; exit 3"}, "a line\n"); }
  void run_until_the_agent_has_ended() {
    while (!host.agent_is_gone()) {
      const event::Timer round = loop->after(std::chrono::milliseconds{1}, [this] { loop->stop(); });
      loop->run();
    }
  }

  const std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  stdio::Output output{*loop, {}, [](const std::string&) {}};
  std::string why_lost;
  RemoteHost host{*loop,
                  "h1",
                  Timeouts{kLongest, kLongest},
                  output,
                  [](const launch::Report&) {},
                  {.send = [](Kind, std::string) -> Result<void> { return {}; },
                   .on_lost = [this](int, const std::string& why) { why_lost = why; },
                   .expel = [] {},
                   .on_settled = [] {}}};
};

TEST_F(RemoteHostTest, IsLostWhenItsAgentEndsBeforeTheDaemonHasJoined) {
  start();
  run_until_the_agent_has_ended();
  EXPECT_TRUE(host.is_lost());
  EXPECT_NE(why_lost.find("cannot start a daemon on host h1"), std::string::npos) << why_lost;
}

TEST_F(RemoteHostTest, IsLostAndTheDaemonIsNamedWhenItsAgentEndsAfterTheDaemonHasJoined) {
  start();
  host.joined(4711);
  run_until_the_agent_has_ended();
  EXPECT_TRUE(host.is_lost());
  EXPECT_NE(why_lost.find("the daemon of host h1 (opald, pid 4711) is lost"), std::string::npos) << why_lost;
}

TEST_F(RemoteHostTest, IsNotLostWhenItsAgentEndsAfterTheFirstMessage) {
  start();
  host.joined(4711);
  EXPECT_TRUE(host.handle(kKind<Ready>, {}));
  run_until_the_agent_has_ended();
  EXPECT_FALSE(host.is_lost()) << why_lost;
}

}  // namespace
}  // namespace runtime::daemon
