// SPDX-License-Identifier: Apache-2.0
// Links straight to another daemon: made when asked for, used again, closed when nothing is asked any more.
#include "runtime/daemon/tree/direct_links.hpp"

#include <gtest/gtest.h>

#include <set>

namespace runtime::daemon {
namespace {

constexpr std::uint32_t kHost = 5;
constexpr std::chrono::seconds kLongest{60};

class DirectLinksTest : public ::testing::Test {
 protected:
  DirectLinksTest() : loop(event::Loop::create().value()) {
    store.set("am_transports", "tcp");
    oob::DaemonHost asker{.say = [](const std::string&) {}};
    oob::DaemonHost owner = asker;
    asker.on_message = [this](opal::am::Endpoint&, oob::Topic, const std::string&) {
      ++answers;
      links->answered(kHost);
      loop->stop();
    };
    owner.on_message = [this](opal::am::Endpoint& from, oob::Topic topic, const std::string& content) {
      guests.insert(&from);
      if (!answering) return;
      EXPECT_TRUE(b->send(from, topic, content));
    };
    owner.on_lost = [this](opal::am::Endpoint&, const Error&) {
      ++closed;
      loop->stop();
    };
    asker.on_lost = [this](opal::am::Endpoint& peer, const Error&) {
      lost = links->on_closed(peer);
      loop->stop();
    };
    a = oob::Daemon::open(*loop, store, secret, asker).value();
    b = oob::Daemon::open(*loop, store, secret, owner).value();
    links.emplace(*loop, *a, [](opal::am::Endpoint&) { return false; });
  }
  /// Until the next stop().
  void run() {
    const auto limit = loop->after(std::chrono::duration_cast<std::chrono::milliseconds>(kLongest), [this] {
      ADD_FAILURE() << "nothing happens";
      loop->stop();
    });
    loop->run();
  }

  std::unique_ptr<event::Loop> loop;
  opal::config::Store store;
  opal::Secret secret = opal::Secret::from_text("a secret of sixteen bytes or more").value();
  std::unique_ptr<oob::Daemon> a;
  std::unique_ptr<oob::Daemon> b;
  std::optional<DirectLinks> links;
  std::set<opal::am::Endpoint*> guests;
  std::optional<std::uint32_t> lost;
  bool answering = true;
  int answers = 0;
  int closed = 0;
};

TEST_F(DirectLinksTest, ALinkIsMadeWhenTheAddressIsKnownUsedAgainAndClosedWhenIdle) {
  EXPECT_FALSE(links->ask(kHost, kKind<Modex>, "?")) << "where?";
  links->learn(kHost, std::string{oob::as_text(b->address())});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(links->ask(kHost, kKind<Modex>, "?"));
    run();
  }
  EXPECT_EQ(answers, 10);
  EXPECT_EQ(guests.size(), 1U) << "one link for all";
  run();
  EXPECT_EQ(closed, 1);
  ASSERT_TRUE(links->ask(kHost, kKind<Modex>, "?")) << "and it is made again";
  run();
  EXPECT_EQ(answers, 11);
}

TEST_F(DirectLinksTest, WhoWaitsForAnAnswerHearsThatTheLinkIsOver) {
  links->learn(kHost, std::string{oob::as_text(b->address())});
  answering = false;
  ASSERT_TRUE(links->ask(kHost, kKind<Modex>, "?"));
  const auto end = loop->after(std::chrono::milliseconds{1}, [this] { b.reset(); });
  run();
  EXPECT_EQ(lost, kHost);
}

}  // namespace
}  // namespace runtime::daemon
