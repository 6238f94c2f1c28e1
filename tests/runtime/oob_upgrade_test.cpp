// SPDX-License-Identifier: Apache-2.0
// Connections of the out-of-band channel that move from tcp to a better transport, between two daemons;
// and what happens when that transport's connection is cut by force.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <atomic>
#include <cstring>

#include "opal/btl/registry.hpp"
#include "opal/core/log.hpp"
#include "runtime/oob/daemon.hpp"
#include "tests/runtime/cut_local_sockets.hpp"

namespace runtime::test {
namespace {

using oob::Topic;

constexpr std::chrono::seconds kLongest{60};

/// Counts how often connections of this process have gone back to tcp: that may last for a few messages only.
class Returns {
 public:
  Returns() : level_(opal::log::level()) {
    opal::log::set_level(opal::log::Level::debug);
    opal::log::set_sink(
        [](void* self, const opal::log::Message& message) noexcept {
          if (message.text.ends_with("messages go over tcp from now on")) ++static_cast<Returns*>(self)->count_;
        },
        this);
  }
  Returns(const Returns&) = delete;
  Returns& operator=(const Returns&) = delete;
  ~Returns() {
    opal::log::set_sink(nullptr, nullptr);
    opal::log::set_level(level_);
  }
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  const opal::log::Level level_;
  std::atomic<int> count_{0};
};

/// Two daemons of one job in one loop.  Each counts what it hears from the other.
class TwoDaemons {
 public:
  explicit TwoDaemons(const std::string& transports = "") : loop_(event::Loop::create().value()) {
    if (!transports.empty()) store_.set("am_transports", transports);
    for (End* end : {&a_, &b_}) {
      oob::DaemonHost hooks{.say = [this](const std::string& line) {
        if (line.starts_with("a message of another daemon is dropped")) {
          ++dropped_;
        } else {
          ADD_FAILURE() << line;
        }
      }};
      hooks.on_message = [end](opal::am::Endpoint& from, Topic topic, const std::string& content) {
        end->peer = &from;
        take(*end, topic, oob::as_bytes(content));
      };
      hooks.on_lost = [end](opal::am::Endpoint&, const Error&) {
        ++end->lost;
        end->peer = nullptr;
        end->sent = end->heard = 0;  // what follows is of another connection
      };
      end->daemon = oob::Daemon::open(*loop_, store_, secret_, std::move(hooks)).value();
    }
    connect();
  }

  /// One of them ends the connection and makes another at once; what the other one sends into the old one is lost.
  void connect_anew() {
    a_.daemon->disconnect(*a_.peer);
    a_.heard = a_.sent = 0;
    connect();
  }

  /// Sends `content` from one to the other as it is.  Returns the error.
  Result<void> send_whole(std::string content) { return a_.daemon->send(*a_.peer, Topic::user, std::move(content)); }
  /// Sends bytes that are no piece of a message.
  void send_garbage() {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{39}, std::size_t{40}, std::size_t{500}}) {
      const std::string garbage(size, '\x55');
      EXPECT_EQ(a_.peer->send_or_queue(oob::kActiveMessageTag, oob::as_bytes(garbage), {}), opal::Post::done);
    }
  }
  [[nodiscard]] std::size_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] std::size_t largest() const noexcept { return b_.largest; }

  /// Sends both ways until `done`.
  void run(const std::function<bool()>& done) {
    bool in_time = true;
    const event::Timer limit = loop_->after(std::chrono::duration_cast<std::chrono::milliseconds>(kLongest), [&] {
      in_time = false;
      loop_->stop();
    });
    event::Timer round;
    const std::function<void()> turn = [&] {
      if (done()) return loop_->stop();
      for (End* end : {&a_, &b_}) {
        for (int i = 0; i < 10 && end->peer != nullptr; ++i) send(*end);
      }
      round = loop_->after(std::chrono::milliseconds{1}, turn);
    };
    loop_->post(turn);
    loop_->run();
    EXPECT_TRUE(in_time) << "now over " << transport(a_) << " and " << transport(b_);
  }

  /// Until everything has arrived.
  void finish() {
    for (End* end : {&a_, &b_}) end->quiet = true;
    run([this] { return a_.heard == b_.sent && b_.heard == a_.sent; });
    EXPECT_EQ(a_.lost + b_.lost, 0);
  }

  /// Whether both send by something better than tcp.
  bool upgrade() {
    return a_.peer != nullptr && b_.peer != nullptr && transport(a_) != "tcp" && transport(b_) != "tcp";
  }
  bool plain() { return transport(a_) == "tcp" && transport(b_) == "tcp"; }
  [[nodiscard]] bool both_heard(std::uint64_t messages) const noexcept {
    return a_.heard >= messages && b_.heard >= messages;
  }
  [[nodiscard]] std::uint64_t sent() const noexcept { return a_.sent + b_.sent; }
  [[nodiscard]] int lost() const noexcept { return a_.lost + b_.lost; }

 private:
  struct End {
    std::unique_ptr<oob::Daemon> daemon;
    opal::am::Endpoint* peer = nullptr;
    std::uint64_t sent = 0;
    std::uint64_t heard = 0;
    std::size_t largest = 0;  // bytes of the longest message heard
    int lost = 0;
    bool quiet = false;
  };
  void connect() {
    a_.peer = a_.daemon->connect(b_.daemon->address()).value();
    send(a_);
  }
  std::string_view transport(End& end) { return end.peer == nullptr ? "none" : end.daemon->transport(*end.peer); }

  /// Each message is its number, at times with a long tail.
  void send(End& end) {
    if (end.quiet) return;
    std::string content(8 + (end.sent % 7 == 0 ? 100'000 : 0), static_cast<char>(end.sent));
    std::memcpy(content.data(), &end.sent, 8);
    if (end.daemon->send(*end.peer, Topic::user, std::move(content))) ++end.sent;
  }
  static void take(End& end, Topic topic, ByteSpan content) {
    EXPECT_EQ(topic, Topic::user);
    end.largest = std::max(end.largest, content.size());
    if (content.size() > 1'000'000) return;  // of send_whole()
    std::uint64_t number = 0;
    ASSERT_TRUE(opal::read_object(content, number));
    ASSERT_EQ(number, end.heard) << "lost, repeated or out of order";
    ++end.heard;
    for (const std::byte byte : content.subspan(8)) ASSERT_EQ(byte, static_cast<std::byte>(number));
  }

  std::unique_ptr<event::Loop> loop_;
  opal::config::Store store_;
  opal::Secret secret_ = opal::Secret::from_text("a secret of sixteen bytes or more").value();
  End a_;
  End b_;
  std::size_t dropped_ = 0;
};

TEST(OobUpgrade, DaemonsOfOneHostMoveToSharedMemory) {
  TwoDaemons daemons;
  daemons.run([&] { return daemons.upgrade(); });
  daemons.finish();
}

TEST(OobUpgrade, WithoutABetterTransportTheyStayOnTcp) {
  TwoDaemons daemons{"tcp"};
  daemons.run([&] { return daemons.sent() > 2000; });
  EXPECT_TRUE(daemons.plain());
  daemons.finish();
}

TEST(OobUpgrade, WhenSharedMemoryIsCutNothingIsLostAndTheyTryAgain) {
  TwoDaemons daemons;
  const Returns returns;
  for (int cut = 1; cut <= 3; ++cut) {
    daemons.run([&] { return daemons.upgrade(); });
    EXPECT_GT(cut_local_sockets(), 0);
    daemons.run([&] { return returns.count() == 2 * cut; });
  }
  daemons.finish();
}

TEST(OobUpgrade, GarbageIsDroppedAndTheChannelGoesOn) {
  TwoDaemons daemons;
  daemons.run([&] { return daemons.both_heard(1); });
  daemons.send_garbage();
  daemons.run([&] { return daemons.dropped() == 5; });
  daemons.finish();
}

TEST(OobUpgrade, TheLongestMessageArrivesAndALongerOneIsRefused) {
  TwoDaemons daemons;
  EXPECT_FALSE(daemons.send_whole(std::string(oob::kLargestMessage + 1, 'x')));
  EXPECT_TRUE(daemons.send_whole(std::string(oob::kLargestMessage, 'x')));
  daemons.run([&] { return daemons.largest() == oob::kLargestMessage; });
  daemons.finish();
}

/// The other side has not seen the end of the old one when the new one comes, by the same endpoint.
TEST(OobUpgrade, AConnectionMadeAnewIsTheEndOfTheOneBefore) {
  TwoDaemons daemons;
  int times = 0;
  for (const std::uint64_t messages : {1U, 8U, 20U, 100U, 500U}) {
    daemons.run([&] { return daemons.both_heard(messages); });
    daemons.connect_anew();
    daemons.run([&] { return daemons.both_heard(1); });
    EXPECT_EQ(daemons.lost(), ++times);
  }
}

}  // namespace
}  // namespace runtime::test
