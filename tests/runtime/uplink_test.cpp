// SPDX-License-Identifier: Apache-2.0
// A daemon's answers to requests of other hosts.
#include "runtime/daemon/uplink.hpp"

#include <gtest/gtest.h>

namespace runtime::daemon {
namespace {

constexpr std::chrono::seconds kLongest{60};

/// The launcher and one daemon.
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
    uplink.emplace(*loop, *daemon, *member, 1);
  }
  std::unique_ptr<oob::Daemon> open(std::optional<TreeMember>& tree) {
    oob::DaemonHost host{.say = [](const std::string&) {}};
    host.on_message = [&tree](opal::am::Endpoint& from, oob::Topic, std::string frame) {
      tree->on_frame(from, std::move(frame));
    };
    return oob::Daemon::open(*loop, store, secret, std::move(host)).value();
  }
  void on_message(overlay::Id origin, Kind kind, ByteSpan content) override {
    if (origin != 1 || kind != kKind<ModexResult>) return;
    result = unpack<ModexResult>(content).value();
    loop->stop();
  }
  void on_lost(overlay::Id, overlay::Loss) override { ADD_FAILURE(); }
  void on_out(const char* why) override { ADD_FAILURE() << why; }

  std::unique_ptr<event::Loop> loop;
  opal::config::Store store;
  opal::Secret secret = opal::Secret::from_text("a secret of sixteen bytes or more").value();
  std::unique_ptr<oob::Daemon> launcher;
  std::unique_ptr<oob::Daemon> daemon;
  std::optional<TreeMember> root;
  std::optional<TreeMember> member;
  std::optional<Uplink> uplink;
  std::optional<ModexResult> result;
};

TEST_F(UplinkTest, ARequestOfTheTreeIsAnsweredWithoutAServer) {
  const auto limit = loop->after(std::chrono::duration_cast<std::chrono::milliseconds>(kLongest), [this] {
    ADD_FAILURE() << "no answer";
    loop->stop();
  });
  const std::string request = pack(Modex{.rank = 3, .host = 0, .request_id = 7});
  EXPECT_TRUE(uplink->handle(kKind<Modex>, oob::as_bytes(request), nullptr));
  loop->run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->host, 0U);
  EXPECT_EQ(result->request_id, 7U);
  EXPECT_EQ(result->status, PMIX_ERR_NOT_FOUND);
}

}  // namespace
}  // namespace runtime::daemon
