// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/kill_steps.hpp — a process is killed at many single instructions of a protocol; its peers here notice,
// complete everything once, and serve the next one who comes.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "opal/btl/sm/module.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::btl::sm {

/// What victim and survivors tell each other, in memory that outlives the victim.
struct Board {
  std::atomic<std::uint32_t> victim;    ///< how far the victim is
  std::atomic<std::uint32_t> survivor;  ///< how far we are
  std::atomic<std::uint64_t> posted;    ///< operations of all victims
  std::atomic<std::uint64_t> ended;     ///< those of them that the victim knew to be through
  std::uint64_t address;
  SoftwareHandle region;
};

class SmKillSteps : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kKills = 8;

  SmKillSteps()
      : board_(static_cast<Board*>(
            ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (board_ == MAP_FAILED) std::abort();
  }
  ~SmKillSteps() override { ::munmap(board_, sizeof(Board)); }

  static config::Store with(std::initializer_list<std::array<std::string_view, 2>> settings) {
    config::Store store;
    for (const auto& [name, value] : settings) store.set(name, value);
    return store;
  }

  /// Runs `victim`, whose marks enclose a protocol, and kills it at kKills moments, evenly spread, while a thread
  /// progresses `sides` and calls `work`.  After each it looks whether the sides are in order.
  void kill_everywhere(const std::vector<test::Side*>& sides, const std::function<void()>& victim,
                       const std::function<void()>& work) {
    std::uint64_t length = 0;
    std::uint64_t killed_there = 0;
    for (std::uint64_t kill = 0; kill <= kKills; ++kill) {
      board_->victim = board_->survivor = 0;
      bool refused = false;
      {
        const std::jthread pumping{[&](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (!may_progress_ || may_progress_()) {
              for (test::Side* side : sides) side->module().progress(64);
            }
            work();
            std::this_thread::yield();
          }
        }};
        if (kill == 0) {
          const auto pieces = test::count_steps(victim);
          refused = !pieces || pieces->empty();
          if (!refused) length = pieces->front().instructions;
        } else {
          const test::Killed killed = test::kill_after(victim, length * (kill - 1) / kKills);
          ASSERT_NE(killed, test::Killed::not_at_all) << kill;
          killed_there += killed == test::Killed::there ? 1 : 0;
          if (killed == test::Killed::at_end) length -= length / 8;  // later runs find more symbols bound
        }
      }
      if (refused) {
        ASSERT_FALSE(test::count_steps([] { test::step_mark(), test::step_mark(); })) << "the victim ended badly";
        GTEST_SKIP() << "needs ptrace: x86-64 and a kernel that lets a process trace its child";
      }
      for (test::Side* side : sides)
        ASSERT_NO_FATAL_FAILURE(expect_in_order(*side)) << "kill " << kill << " of " << kKills;
    }
    EXPECT_GT(killed_there, kKills / 3) << "lengths of runs differ, but not so much";
  }
  static void expect_in_order(test::Side& side) {
    ASSERT_TRUE(test::pump([&] { return side.failures.size() == side.accepted.size(); }, side))
        << "its end is not noticed";
    for (const test::Failure& failure : side.failures) {
      ASSERT_EQ(failure.why.code, Errc::peer_gone) << to_string(failure.why);
      side.module().disconnect(*failure.endpoint);
    }
    side.failures.clear();
    side.accepted.clear();
    side.received.clear();
    {
      test::Side friendly{"sm"};
      btl::Endpoint& route = *friendly.connect(side);
      for (std::uint32_t i = 0; i < 40; ++i) ASSERT_EQ(test::send(route, bytes_of(i), {}, friendly, side), Post::done);
      ASSERT_TRUE(test::pump([&] { return side.received.size() >= 40; }, side));
    }
    side.received.clear();
  }

  Board* board_;
  std::function<bool()> may_progress_;  // asked before each round of the sides; null: always
};

/// Messages to the newest peer of `side` up to the `count`-th; each peer is counted anew.
class Talker {
 public:
  explicit Talker(test::Side& side) : side_(side) {}
  void talk(std::uint32_t count) {
    if (side_.accepted.empty()) return;
    btl::Endpoint* const to = side_.accepted.back();
    if (to->peer() != peer_) sent_ = 0;
    peer_ = to->peer();
    if (to->dead()) return;
    while (sent_ < count && side_.module().send_inline(*to, test::kTag, bytes_of(sent_), {}) == Post::done) ++sent_;
  }
  [[nodiscard]] std::uint32_t sent() const { return sent_; }

 private:
  test::Side& side_;
  PeerId peer_{};
  std::uint32_t sent_ = 0;
};

}  // namespace opal::btl::sm
