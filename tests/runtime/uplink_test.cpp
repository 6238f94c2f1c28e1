// SPDX-License-Identifier: Apache-2.0
// A daemon's answers to requests of other hosts, and its own requests: through the launcher, or straight to another
// daemon by a connection that is made when it is needed and used again.
#include "runtime/daemon/uplink.hpp"

#include <gtest/gtest.h>

#include <set>

namespace runtime::daemon {
namespace {

constexpr std::chrono::seconds kLongest{60};

/// The launcher, one daemon, and a third one, outside of the tree, that owns rank 1.
class UplinkTest : public ::testing::Test, protected TreeUser {
 protected:
  UplinkTest() : loop(event::Loop::create().value()) {
    store.set("am_transports", "tcp");
    launcher = open(root);
    daemon = open(member);
    const Timeouts timeouts{kLongest, kLongest};
    TreeUser& user = *this;
    root.emplace(*loop, *launcher, tree_options(0, 2, 2, timeouts), user, std::map<overlay::Id, std::string>{});
    member.emplace(*loop, *daemon, tree_options(1, 2, 2, timeouts), user,
                   std::map<overlay::Id, std::string>{{0, std::string{oob::as_text(launcher->address())}}});
    uplink.emplace(*daemon, *member, 1);
    member->set_hosts({{"launcher", {}}, {"daemon", {0}}, {"owner", {1}}});
    oob::DaemonHost host{.say = [](const std::string&) {}};
    host.on_message = [this](opal::am::Endpoint& from, oob::Topic, const std::string& content) {
      guests.insert(&from);
      const auto request = unpack<Modex>(oob::as_bytes(content)).value();
      if (!answering) return loop->stop();
      const ModexResult answer{request.host, request.request_id, PMIX_SUCCESS, "data", {}};
      EXPECT_TRUE(owner->send(from, topic(kKind<ModexResult>), pack(answer)));
    };
    owner = oob::Daemon::open(*loop, store, secret, std::move(host)).value();
  }
  std::unique_ptr<oob::Daemon> open(std::optional<TreeMember>& tree) {
    oob::DaemonHost host{.say = [](const std::string&) {}};
    host.on_message = [this, &tree](opal::am::Endpoint& from, oob::Topic topic, std::string content) {
      if (static_cast<Kind>(topic) == kKind<Frame>) return tree->on_frame(from, std::move(content));
      EXPECT_TRUE(uplink->handle(static_cast<Kind>(topic), oob::as_bytes(content), nullptr, &from));
    };
    host.on_lost = [this, &tree](opal::am::Endpoint& peer, const Error&) {
      if (uplink) uplink->on_closed(peer);
      if (tree) tree->on_closed(peer);
    };
    return oob::Daemon::open(*loop, store, secret, std::move(host)).value();
  }
  void on_message(overlay::Id origin, Kind kind, ByteSpan content) override {
    if (origin == 0) {
      EXPECT_TRUE(uplink->handle(kind, content, nullptr));
    } else if (kind == kKind<ModexResult>) {
      result = unpack<ModexResult>(content).value();
      loop->stop();
    } else if (const auto request = unpack<Modex>(content)) {
      ++through_launcher;
      const ModexResult answer{request->host, request->request_id, PMIX_SUCCESS, "data", address_of_owner};
      EXPECT_TRUE(root->send(overlay::IdSet::of(1), kKind<ModexResult>, pack(answer)));
    }
  }
  void ask() {
    uplink->modex(1, [this](int status, const std::string& data) {
      EXPECT_EQ(status, PMIX_SUCCESS);
      EXPECT_EQ(data, "data");
      ++answers;
      loop->stop();
    });
  }
  /// Until the next stop().
  void run() {
    const auto limit = loop->after(std::chrono::duration_cast<std::chrono::milliseconds>(kLongest), [this] {
      ADD_FAILURE() << "nothing happens";
      loop->stop();
    });
    loop->run();
  }
  void on_lost(overlay::Id, overlay::Loss) override { ADD_FAILURE(); }
  void on_out(const char* why) override { ADD_FAILURE() << why; }

  std::unique_ptr<event::Loop> loop;
  opal::config::Store store;
  opal::Secret secret = opal::Secret::from_text("a secret of sixteen bytes or more").value();
  std::unique_ptr<oob::Daemon> launcher;
  std::unique_ptr<oob::Daemon> daemon;
  std::unique_ptr<oob::Daemon> owner;
  std::optional<TreeMember> root;
  std::optional<TreeMember> member;
  std::optional<Uplink> uplink;
  std::optional<ModexResult> result;
  std::string address_of_owner;
  std::set<opal::am::Endpoint*> guests;
  bool answering = true;
  int through_launcher = 0;
  int answers = 0;
};

TEST_F(UplinkTest, ARequestOfTheTreeIsAnsweredWithoutAServer) {
  const std::string request = pack(Modex{.rank = 3, .host = 0, .request_id = 7});
  EXPECT_TRUE(uplink->handle(kKind<Modex>, oob::as_bytes(request), nullptr));
  run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->host, 0U);
  EXPECT_EQ(result->request_id, 7U);
  EXPECT_EQ(result->status, PMIX_ERR_NOT_FOUND);
}

TEST_F(UplinkTest, ALinkIsMadeWhenTheAddressIsKnownAndUsedAgain) {
  ask();
  run();
  EXPECT_EQ(through_launcher, 1) << "where is the owner?";
  address_of_owner = std::string{oob::as_text(owner->address())};
  ask();
  run();
  EXPECT_EQ(through_launcher, 2);
  for (int i = 0; i < 10; ++i) {
    ask();
    run();
  }
  EXPECT_EQ(answers, 12);
  EXPECT_EQ(through_launcher, 2);
  EXPECT_EQ(guests.size(), 1U) << "one link for all";
}

TEST_F(UplinkTest, ARequestGoesThroughTheLauncherWhenItsLinkIsOver) {
  address_of_owner = std::string{oob::as_text(owner->address())};
  ask();
  run();
  answering = false;
  ask();
  run();
  EXPECT_EQ(answers, 1);
  owner.reset();
  run();
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(through_launcher, 2);
}

}  // namespace
}  // namespace runtime::daemon
