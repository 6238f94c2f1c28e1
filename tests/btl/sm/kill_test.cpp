// SPDX-License-Identifier: Apache-2.0
// A sender is killed after every single instruction of a send, on each way that a small message can take.  What it had
// said before arrives, the message of its last moment arrives whole or not at all, its end is noticed, and the
// receiver's next peer finds everything in order.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::btl::sm {
namespace {

using test::kill_after;
using test::Killed;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;
using test::step_mark;

constexpr const char* kNeeds = "needs ptrace: x86-64 and a kernel that lets a process trace its child";

/// A number that a forked process tells its parent, also when it is killed.
class Told {
 public:
  Told()
      : place_(static_cast<std::atomic<std::uint32_t>*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (place_ == MAP_FAILED) std::abort();
  }
  ~Told() { ::munmap(place_, 4096); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  [[nodiscard]] std::atomic<std::uint32_t>& number() noexcept { return *place_; }

 private:
  std::atomic<std::uint32_t>* place_;
};

enum class By { fifo, box, offer };

/// Small boxes: whoever offers one clears it first, which takes an instruction for each of its bytes, step by step.
config::Store with_small_boxes() {
  config::Store store;
  store.set("btl_sm_fbox_size", "4K");
  return store;
}

/// Some short messages, how many it says in `told`; then, between the marks, one of `size` bytes.
void say(ByteSpan blob, By way, std::size_t size, std::atomic<std::uint32_t>& told) {
  Side own{"sm", with_small_boxes()};
  btl::Endpoint* const route = own.connect(blob);
  if (route == nullptr) ::_exit(3);
  const std::uint32_t count = way == By::offer ? 16 : 5;  // the 17th carries the offer
  std::uint32_t sent = 0;
  while (sent < count || (way == By::box && !has_fast_box(*route))) {
    if (own.module().send_inline(*route, kTag, pattern(8, sent), {}) == Post::done) ++sent;
    own.module().progress(1);
  }
  told = sent;
  const auto last = pattern(size, sent);
  step_mark();
  const Post post = own.module().send_inline(*route, kTag, last, {});
  step_mark();
  if (post != Post::done) ::_exit(4);
}

/// Progresses a side from a thread of its own, which alone uses it meanwhile.
class Pumping {
 public:
  explicit Pumping(Side& side)
      : thread_([this, &side] {
          while (!stop_) {
            side.module().progress(64);
            std::this_thread::yield();
          }
        }) {}
  ~Pumping() {
    stop_ = true;
    thread_.join();
  }
  Pumping(const Pumping&) = delete;
  Pumping& operator=(const Pumping&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Kills after each of the last instructions of the send, where it is published, and after some of those before.
void kill_everywhere(By way, std::size_t size) {
  Side side{"sm", with_small_boxes()};
  const auto blob = side.blob();
  Told told;
  const auto body = [&] { say(blob, way, size, told.number()); };
  std::uint64_t length = 0;
  {
    const Pumping pumping{side};
    const auto pieces = test::count_steps(body);
    if (!pieces || pieces->empty()) GTEST_SKIP() << kNeeds;
    length = (*pieces)[0].instructions;
  }
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  side.module().disconnect(*side.failures[0].endpoint);
  std::uint64_t kills = 0;
  std::size_t arrived = 0;
  // Every kill steps through the send from its start: few of them where it is long, or it takes minutes.
  const bool is_long = length > 1000;  // by memcpy, one byte a step; or it maps memory
  const std::uint64_t stride = is_long ? length / 8 : std::max<std::uint64_t>(2, length / 24);
  const std::uint64_t fine = is_long ? 8 : 24;
  const auto next_after = [&](std::uint64_t steps) {  // `length` is that of one run; others may differ a little
    if (steps + fine < length) return std::min(steps + stride, length - fine);
    return steps < length + fine ? steps + 1 : steps + stride;
  };
  for (std::uint64_t steps = 0;; steps = next_after(steps)) {
    side.received.clear();
    side.failures.clear();
    Killed killed{};
    {
      const Pumping pumping{side};
      killed = kill_after(body, steps);
    }
    ASSERT_NE(killed, Killed::not_at_all) << "after " << steps << " instructions";
    ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side)) << "after " << steps << " instructions";
    ASSERT_EQ(side.failures[0].why.code, Errc::peer_gone) << to_string(side.failures[0].why);
    side.module().disconnect(*side.failures[0].endpoint);
    const std::uint32_t before = told.number();
    ASSERT_GE(side.received.size(), before) << "after " << steps << " instructions";
    ASSERT_LE(side.received.size(), before + 1U);
    for (std::uint32_t i = 0; i < side.received.size(); ++i) {
      ASSERT_EQ(side.received[i], pattern(i < before ? 8 : size, i)) << i << ", after " << steps << " instructions";
    }
    arrived += side.received.size() == before + 1U ? 1 : 0;
    ++kills;
    if (killed == Killed::at_end) break;
  }
  EXPECT_GT(arrived, 0U) << "at least the last one was through";
  EXPECT_LT(arrived, kills) << "at least the first one was not";
  Side friendly{"sm"};
  side.received.clear();
  btl::Endpoint* const route = friendly.connect(side);
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(test::send(*route, pattern(8, i), {}, friendly, side), Post::done);
  }
  EXPECT_TRUE(pump([&] { return side.received.size() == 40; }, side));
}

TEST(SmKill, AnywhereInASendByFastBox) { kill_everywhere(By::box, 8); }

TEST(SmKill, AnywhereInASendOfSeveralLinesByFastBox) { kill_everywhere(By::box, 200); }

TEST(SmKill, AnywhereInASendByFifo) { kill_everywhere(By::fifo, 8); }

TEST(SmKill, AnywhereInASendOfALongFragment) { kill_everywhere(By::fifo, 9000); }

TEST(SmKill, AnywhereInTheSendThatOffersABox) { kill_everywhere(By::offer, 8); }

}  // namespace
}  // namespace opal::btl::sm
