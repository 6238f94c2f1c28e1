// SPDX-License-Identifier: Apache-2.0
// What a message between two sleeping daemons costs in system calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/oob/daemon.hpp"
#include "tests/harness/stepper.hpp"

namespace runtime::test {
namespace {

using opal::test::count_system_calls;
using opal::test::step_mark;

constexpr const char* kNeeds = "needs ptrace: x86-64 and a kernel that lets a process trace its child";

/// Two daemons of one loop, which answer each other.
class Echo {
 public:
  Echo(const std::string& transports, std::size_t size) : loop_(event::Loop::create().value()), content_(size, 'x') {
    store_.set("am_transports", transports);
    a_ = open([this](opal::am::Endpoint&) { next(); });
    b_ = open([this](opal::am::Endpoint& from) { send(*b_, from); });
    peer_ = a_->connect(b_->address()).value();
  }

  /// There and back so often.
  void run(int times) {
    left_ = times;
    next();
    loop_->run();
  }
  [[nodiscard]] std::string_view transport() { return a_->transport(*peer_); }

 private:
  std::unique_ptr<oob::Daemon> open(std::function<void(opal::am::Endpoint&)> on_message) {
    oob::DaemonHost hooks{.say = [](const std::string&) {}};
    hooks.on_message = [on_message](opal::am::Endpoint& from, oob::Topic, const std::string&) { on_message(from); };
    return oob::Daemon::open(*loop_, store_, secret_, std::move(hooks)).value();
  }
  void next() {
    if (left_-- == 0) return loop_->stop();
    send(*a_, *peer_);
  }
  void send(oob::Daemon& daemon, opal::am::Endpoint& to) {
    if (!daemon.send(to, oob::Topic::user, content_)) ::_exit(3);
  }

  std::unique_ptr<event::Loop> loop_;
  opal::config::Store store_;
  opal::Secret secret_ = opal::Secret::from_text("a secret of sixteen bytes or more").value();
  const std::string content_;
  std::unique_ptr<oob::Daemon> a_;
  std::unique_ptr<oob::Daemon> b_;
  opal::am::Endpoint* peer_ = nullptr;
  int left_ = 0;
};

constexpr int kTimes = 20;

/// System calls of a message and its answer; nothing when they cannot be counted.
std::optional<double> system_calls(const std::string& transports, std::string_view expected, std::size_t size) {
  const auto pieces = count_system_calls([&] {
    Echo echo{transports, size};
    echo.run(200);
    if (echo.transport() != expected) ::_exit(4);
    step_mark();
    echo.run(kTimes);
    step_mark();
  });
  if (!pieces || pieces->size() != 1) return {};
  return static_cast<double>((*pieces)[0]) / kTimes;
}

/// A daemon that is woken looks at that way alone which woke it.
TEST(OobCost, AMessageOverSharedMemoryEntersTheKernelLessOftenThanOverTcp) {
  for (const std::size_t size : {64U, 1024U, 65536U}) {
    const auto tcp = system_calls("tcp", "tcp", size);
    if (!tcp) GTEST_SKIP() << kNeeds;
    const auto sm = system_calls("", "sm", size);
    ASSERT_TRUE(sm);
    RecordProperty(std::to_string(size), std::to_string(*sm) + " of " + std::to_string(*tcp));
    EXPECT_LT(*sm, *tcp) << size << " bytes";
    EXPECT_LE(*sm, 20) << size << " bytes; two messages";
  }
}

TEST(OobCost, WorkThatTheLoopPostsToItselfWakesNobody) {
  constexpr int kPosts = 64;
  const auto pieces = count_system_calls([] {
    const auto loop = event::Loop::create().value();
    int posts = 0;
    const std::function<void()> work = [&] {
      if (++posts == kPosts) return loop->stop();
      loop->post(work);
    };
    loop->post(work);
    step_mark();
    loop->run();
    step_mark();
    if (posts != kPosts) ::_exit(3);
  });
  if (!pieces) GTEST_SKIP() << kNeeds;
  ASSERT_EQ(pieces->size(), 1U);
  EXPECT_LE((*pieces)[0], kPosts / 4U) << "descriptors get their turn";
}

}  // namespace
}  // namespace runtime::test
