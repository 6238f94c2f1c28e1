// SPDX-License-Identifier: Apache-2.0
// A process is killed at many single instructions of every protocol but plain sending (kill_test.cpp): connecting,
// granting a box, taking one back for another peer, helping with a large get, having one helped, mapping a shared pool.
// Its peers here notice, complete everything once, and serve the next one who comes.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "opal/btl/sm/module.hpp"
#include "opal/mpool/pool.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::kill_after;
using test::Killed;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;
using test::step_mark;

/// What victim and survivors tell each other, in memory that outlives the victim.
struct Board {
  std::atomic<std::uint32_t> victim;    ///< how far the victim is
  std::atomic<std::uint32_t> survivor;  ///< how far we are
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
  /// Waits for what the other process does, in the victim.
  void await(Side& own, std::uint32_t survivor) const {
    if (!pump([&] { return board_->survivor == survivor; }, own)) ::_exit(9);
  }

  /// Runs `victim`, whose marks enclose a protocol, and kills it at kKills moments, evenly spread, while a thread
  /// progresses `sides` and calls `work`.  After each it looks whether the sides are in order.
  void kill_everywhere(const std::vector<Side*>& sides, const std::function<void()>& victim,
                       const std::function<void()>& work) {
    std::uint64_t length = 0;
    std::uint64_t killed_there = 0;
    for (std::uint64_t kill = 0; kill <= kKills; ++kill) {
      board_->victim = board_->survivor = 0;
      bool refused = false;
      {
        std::atomic<bool> stop{false};
        std::jthread pumping{[&] {
          while (!stop) {
            for (Side* side : sides) side->module().progress(64);
            work();
            std::this_thread::yield();
          }
        }};
        if (kill == 0) {
          const auto pieces = test::count_steps(victim);
          refused = !pieces || pieces->empty();
          if (!refused) length = pieces->front().instructions;
        } else {
          const Killed killed = kill_after(victim, length * (kill - 1) / kKills);
          ASSERT_NE(killed, Killed::not_at_all) << kill;
          killed_there += killed == Killed::there ? 1 : 0;
          if (killed == Killed::at_end) length -= length / 8;  // later runs find more symbols bound
        }
        stop = true;
      }
      if (refused) GTEST_SKIP() << "needs ptrace: x86-64 and a kernel that lets a process trace its child";
      for (Side* side : sides) ASSERT_NO_FATAL_FAILURE(expect_in_order(*side)) << "kill " << kill << " of " << kKills;
    }
    EXPECT_GT(killed_there, kKills / 3) << "lengths of runs differ, but not so much";
  }
  static void expect_in_order(Side& side) {
    ASSERT_TRUE(pump([&] { return side.failures.size() == side.accepted.size(); }, side)) << "its end is not noticed";
    for (const test::Failure& failure : side.failures) {
      ASSERT_EQ(failure.why.code, Errc::peer_gone) << to_string(failure.why);
      side.module().disconnect(*failure.endpoint);
    }
    side.failures.clear();
    side.accepted.clear();
    side.received.clear();
    {
      Side friendly{"sm"};
      btl::Endpoint& route = *friendly.connect(side);
      for (std::uint32_t i = 0; i < 40; ++i) ASSERT_EQ(test::send(route, bytes_of(i), {}, friendly, side), Post::done);
      ASSERT_TRUE(pump([&] { return side.received.size() >= 40; }, side));
    }
    side.received.clear();
  }

  Board* board_;
};

TEST_F(SmKillSteps, AnywhereInConnecting) {
  Side side{"sm"};
  const auto blob = side.blob();
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm"};
        step_mark();
        btl::Endpoint* const route = own.connect(blob);
        step_mark();
        if (route == nullptr) ::_exit(3);
      },
      [] {});
}

/// Messages to the newest peer of `side` up to the `count`-th; each peer is counted anew.
class Talker {
 public:
  explicit Talker(Side& side) : side_(side) {}
  void talk(std::uint32_t count) {
    if (side_.accepted.empty()) return;
    btl::Endpoint* const to = side_.accepted.back();
    if (to->peer() != peer_) sent_ = 0;
    peer_ = to->peer();
    if (to->dead()) return;
    while (sent_ < count && side_.module().send_inline(*to, kTag, bytes_of(sent_), {}) == Post::done) ++sent_;
  }
  [[nodiscard]] std::uint32_t sent() const { return sent_; }

 private:
  Side& side_;
  PeerId peer_{};
  std::uint32_t sent_ = 0;
};

constexpr std::uint32_t kThreshold = 16;  // the next message carries the offer

TEST_F(SmKillSteps, AnywhereInGrantingABox) {
  Side side{"sm"};
  const auto blob = side.blob();
  Talker talker{side};
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm"};
        if (own.connect(blob) == nullptr) ::_exit(3);
        if (!pump([&] { return own.received.size() == kThreshold; }, own)) ::_exit(4);
        board_->victim = 1;
        while (board_->survivor != 1) std::this_thread::yield();
        step_mark();
        while (own.received.size() == kThreshold) own.module().progress(64);
        step_mark();
        if (static_cast<Module&>(own.module()).boxes_in() != 1) ::_exit(5);
      },
      [&] {
        talker.talk(board_->victim == 1 ? kThreshold + 1 : kThreshold);
        if (talker.sent() == kThreshold + 1) board_->survivor = 1;
        if (board_->survivor == 1) talker.talk(kThreshold + 5);  // some may go through the box
      });
}

TEST_F(SmKillSteps, AnywhereInTakingABoxBackForSomebodyElse) {
  Side first{"sm"};
  Side second{"sm"};
  const auto blob_of_first = first.blob();
  const auto blob_of_second = second.blob();
  Talker of_first{first};
  Talker of_second{second};
  kill_everywhere(
      {&first, &second},
      [&] {
        Side own{"sm", with({{"btl_sm_fbox_max", "1"}})};
        auto& module = static_cast<Module&>(own.module());
        if (own.connect(blob_of_first) == nullptr) ::_exit(3);
        if (!pump([&] { return own.received.size() == kThreshold + 1 && module.boxes_in() == 1; }, own)) ::_exit(4);
        if (own.connect(blob_of_second) == nullptr) ::_exit(3);
        if (!pump([&] { return own.received.size() == 2 * kThreshold + 1; }, own)) ::_exit(5);
        for (int i = 0; i < 5000; ++i) module.progress(1);  // the box becomes idle
        board_->victim = 1;
        while (board_->survivor != 1) std::this_thread::yield();
        step_mark();
        while (own.received.size() == 2 * kThreshold + 1) module.progress(64);
        step_mark();
        if (module.boxes_in() != 1) ::_exit(6);
      },
      [&] {
        of_first.talk(kThreshold + 1);
        of_second.talk(board_->victim == 1 ? kThreshold + 1 : kThreshold);
        if (board_->victim == 1 && of_second.sent() == kThreshold + 1) board_->survivor = 1;
        if (board_->survivor == 1) {
          of_first.talk(kThreshold + 3);  // into the box that is being taken away
          of_second.talk(kThreshold + 3);
        }
      });
}

class SmKillInAPull : public SmKillSteps, public ::testing::WithParamInterface<std::array<std::string_view, 2>> {
 protected:
  /// Large enough to be helped with; chunks are filled byte by byte, single copy takes one call for any number.
  const std::size_t size_ = GetParam()[0] == "pipelined" ? 17'000 : 1'000'000;
  [[nodiscard]] static config::Store settings() {
    return with({{"btl_sm_large_get", GetParam()[0]},
                 {"btl_sm_single_copy", GetParam()[1]},
                 {"btl_sm_pipeline_patience", "1000000"}});  // a helper that is there is waited for
  }
};
INSTANTIATE_TEST_SUITE_P(By, SmKillInAPull,
                         ::testing::Values(std::array<std::string_view, 2>{"pipelined", "none"},
                                           std::array<std::string_view, 2>{"pipelined", "cma"},
                                           std::array<std::string_view, 2>{"cooperative", "cma"}),
                         [](const auto& info) {
                           return std::string{info.param[0]} + "_" + std::string{info.param[1]};
                         });

TEST_P(SmKillInAPull, AnywhereOnTheInitiatorsSide) {
  Side side{"sm", settings()};
  const auto blob = side.blob();
  const auto memory = pattern(size_, 1);
  const auto handle =
      *side.module().register_memory(const_cast<std::byte*>(memory.data()), memory.size(), Rights::remote_read);
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", settings()};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr) ::_exit(3);
        std::vector<std::byte> copy(size_);
        CountedCompletion done;
        step_mark();
        const Post post = own.module().get(*route, copy.data(), nullptr, reinterpret_cast<std::uint64_t>(memory.data()),
                                           handle, size_, done);
        while (post == Post::queued && done.calls == 0) own.module().progress(64);
        step_mark();
        if (copy != memory) ::_exit(4);
      },
      [] {});
  EXPECT_EQ(memory, pattern(size_, 1));
}

TEST_P(SmKillInAPull, AnywhereOnTheHelpersSide) {
  Side side{"sm", settings()};
  const auto blob = side.blob();
  std::vector<std::byte> copy(size_);
  std::unique_ptr<CountedCompletion> get;
  std::uint32_t gets = 0;
  std::uint32_t ended = 0;
  const auto look = [&] {
    if (get == nullptr || get->calls == 0) return;
    ++ended;
    ASSERT_EQ(get->calls, 1);
    if (get->ok()) {
      ASSERT_EQ(copy, pattern(size_, 1));
    } else {
      ASSERT_TRUE(get->error.code == Errc::peer_gone || get->error.code == Errc::invalid_argument);
    }
    get.reset();
    board_->survivor = 2;
  };
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", settings()};
        auto memory = pattern(size_, 1);
        const auto handle = *own.module().register_memory(memory.data(), memory.size(), Rights::remote_read);
        board_->address = reinterpret_cast<std::uint64_t>(memory.data());
        board_->region = *SoftwareHandle::decode(handle);
        if (own.connect(blob) == nullptr) ::_exit(3);
        board_->victim = 1;
        while (board_->survivor == 0) std::this_thread::yield();
        step_mark();
        while (board_->survivor != 2) own.module().progress(64);
        step_mark();
      },
      [&] {
        look();
        if (board_->victim != 1 || board_->survivor != 0 || side.accepted.empty() || side.accepted.back()->dead())
          return;
        std::fill(copy.begin(), copy.end(), std::byte{});
        get = std::make_unique<CountedCompletion>();
        ++gets;
        const auto handle = *MemoryHandle::from_bytes(bytes_of(board_->region));
        const Post post =
            side.module().get(*side.accepted.back(), copy.data(), nullptr, board_->address, handle, size_, *get);
        if (post != Post::queued) get->calls = 1;
        board_->survivor = 1;
      });
  look();
  EXPECT_EQ(ended, gets) << "each ends once, at the latest with its peer";
}

TEST_F(SmKillSteps, AnywhereInAskingForASharedPoolAndMappingIt) {
  Side side{"sm"};
  const auto blob = side.blob();
  auto pool = mpool::open("shared", mpool::Config{});
  ASSERT_TRUE(pool) << to_string(pool.error());
  const MutableBytes bytes{static_cast<std::byte*>(*(*pool)->allocate(4096, 64)), 4096};
  const auto handle = *side.module().register_memory(bytes.data(), bytes.size(), Rights::all);
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", with({{"btl_sm_single_copy", "shared"}})};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr) ::_exit(3);
        std::byte byte{};
        CountedCompletion got;
        step_mark();
        const Post post =
            own.module().get(*route, &byte, nullptr, reinterpret_cast<std::uint64_t>(bytes.data()), handle, 1, got);
        while ((post == Post::queued && got.calls == 0) || Module::pools_mapped(*route) == 0) own.module().progress(64);
        step_mark();
      },
      [] {});
}

}  // namespace
}  // namespace opal::btl::sm
