// SPDX-License-Identifier: Apache-2.0
// A process is killed at many single instructions of waking a peer, of falling asleep and waking up, and of ringing for
// a parked box.  Whoever sleeps beside it wakes up, by what it said last or by its end.
#include <poll.h>

#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/kill_steps.hpp"

namespace opal::btl::sm {
namespace {

using test::kTag;
using test::pattern;
using test::pump;
using test::Side;
using test::step_mark;

/// Sleeps, unless there is something to do; whether it was woken in time.
bool sleep(Side& side) {
  if (!side.module().arm()) return true;
  pollfd fd{side.module().wait_fd(), POLLIN, 0};
  return ::poll(&fd, 1, 300'000) == 1;  // a hang, not a slow day
}

TEST_F(SmKillSteps, AnywhereInWakingASleeper) {
  Side side{"sm"};
  const auto blob = side.blob();
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm"};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr || test::send(*route, pattern(8, 0), {}, own) != Post::done) ::_exit(3);
        while (!static_cast<Endpoint*>(route)->is_asleep()) std::this_thread::yield();
        step_mark();
        if (own.module().send_inline(*route, kTag, pattern(8, 1), {}) != Post::done) ::_exit(4);
        step_mark();
        while (board_->survivor != 1) std::this_thread::yield();
      },
      [&] {
        if (side.received.size() >= 2) board_->survivor = 1;
        if (side.received.empty() || side.failures.size() == side.accepted.size()) return;
        EXPECT_TRUE(sleep(side)) << "neither a message nor its sender's end woke it";
      });
}

TEST_F(SmKillSteps, AnywhereInFallingAsleepAndWakingUp) {
  Side side{"sm"};
  const auto blob = side.blob();
  std::uint32_t sent = 0;
  PeerId to_whom{};
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm"};
        if (own.connect(blob) == nullptr) ::_exit(3);
        board_->victim = 1;
        step_mark();
        while (own.received.size() < 3) {
          if (!sleep(own)) ::_exit(4);
          own.module().progress(64);
        }
        step_mark();
      },
      [&] {
        if (board_->victim == 0 || side.accepted.empty()) return;
        btl::Endpoint& to = *side.accepted.back();
        if (to.peer() != to_whom) sent = 0;
        to_whom = to.peer();
        if (to.dead() || sent == 3 || !static_cast<Endpoint&>(to).is_asleep()) return;
        if (side.module().send_inline(to, kTag, bytes_of(sent), {}) == Post::done) ++sent;
      });
}

config::Store with_little_room() {
  config::Store store;
  store.set("btl_sm_fbox_max", "0");
  store.set("btl_sm_fifo_slots", "16");
  return store;
}

/// As many messages as there is room for.
void fill(Side& own, btl::Endpoint& to) {
  while (own.module().send_inline(to, kTag, bytes_of(1), {}) == Post::done) {
  }
}

TEST_F(SmKillSteps, AnywhereInSleepingForRoom) {
  Side side{"sm", with_little_room()};
  const auto blob = side.blob();
  // Else there would be room again before the victim is asleep.
  may_progress_ = [&] {
    if (side.received.empty()) return true;  // before, the newest peer is not the victim yet
    const auto& victim = static_cast<const Endpoint&>(*side.accepted.back());
    return victim.dead() || victim.is_asleep();
  };
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", with_little_room()};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr || test::send(*route, bytes_of(0), {}, own) != Post::done) ::_exit(3);
        step_mark();
        for (int i = 0; i < 3; ++i) {
          fill(own, *route);
          if (!sleep(own)) ::_exit(4);
          own.module().progress(64);
        }
        step_mark();
      },
      [] {});
}

TEST_F(SmKillSteps, AnywhereInMakingRoomForASleeper) {
  Side side{"sm"};
  const auto blob = side.blob();
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", with_little_room()};
        if (own.connect(blob) == nullptr) ::_exit(3);
        board_->victim = 1;
        while (board_->survivor != 1) std::this_thread::yield();
        step_mark();
        while (board_->survivor != 2) own.module().progress(64);
        step_mark();
      },
      [&] {
        if (board_->victim == 0 || side.accepted.empty() || side.accepted.back()->dead()) return;
        fill(side, *side.accepted.back());
        if (!side.module().arm()) return;
        if (board_->survivor == 0) board_->survivor = 1;
        pollfd fd{side.module().wait_fd(), POLLIN, 0};
        EXPECT_EQ(::poll(&fd, 1, 300'000), 1) << "neither room nor its peer's end woke it";
        if (!side.accepted.back()->dead()) board_->survivor = 2;
      });
}

TEST_F(SmKillSteps, AnywhereInRingingForAParkedBox) {
  Side side{"sm"};
  const auto blob = side.blob();
  // As many boxes as are never parked, kept busy.
  std::vector<std::unique_ptr<Side>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<Side>("sm"));
    Side& other = *others.back();
    side.connect(other);
    ASSERT_TRUE(pump([&] { return !other.accepted.empty(); }, other));
    for (int sent = 0; !has_fast_box(*other.accepted[0]); ++sent) {
      ASSERT_EQ(test::send(*other.accepted[0], bytes_of(sent), {}, other, side), Post::done);
    }
  }
  side.received.clear();
  const auto& module = static_cast<Module&>(side.module());
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm"};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr) ::_exit(3);
        for (int sent = 0; !has_fast_box(*route); ++sent) {
          if (test::send(*route, bytes_of(sent), {}, own) != Post::done) ::_exit(4);
        }
        board_->victim = 1;
        while (board_->survivor != 1) std::this_thread::yield();
        step_mark();
        if (own.module().send_inline(*route, kTag, bytes_of(1), {}) != Post::done) ::_exit(5);
        step_mark();
        while (board_->survivor != 2) std::this_thread::yield();
      },
      [&] {
        for (int round = 0; round < 100; ++round) {  // a box is parked when it has been idle for a thousand
          for (auto& other : others) {
            (void)other->module().send_inline(*other->accepted[0], kTag, bytes_of(0), {});
          }
          side.module().progress(64);
        }
        side.received.clear();
        if (board_->victim == 0) return;
        if (board_->survivor == 0 && fast_boxes(module).polled().size() < fast_boxes(module).accepted())
          board_->survivor = 1;
        if (board_->survivor == 1 && fast_boxes(module).polled().size() == fast_boxes(module).accepted())
          board_->survivor = 2;
      });
}

}  // namespace
}  // namespace opal::btl::sm
