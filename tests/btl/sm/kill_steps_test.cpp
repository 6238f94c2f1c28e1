// SPDX-License-Identifier: Apache-2.0
// A process is killed at many single instructions of connecting, granting a box, taking one back for another peer,
// helping with a large get, having one helped, mapping a shared pool.  Sends: kill_test.cpp; puts and atomics:
// kill_one_sided_test.cpp; sleeping: kill_asleep_test.cpp.
#include <cstring>

#include "opal/mpool/pool.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/kill_steps.hpp"
#include "tests/btl/sm/sides.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::pattern;
using test::pump;
using test::Side;
using test::step_mark;

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
        if (fast_boxes(own.module()).accepted() != 1) ::_exit(5);
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
        if (!pump([&] { return own.received.size() == kThreshold + 1 && fast_boxes(module).accepted() == 1; }, own))
          ::_exit(4);
        if (own.connect(blob_of_second) == nullptr) ::_exit(3);
        if (!pump([&] { return own.received.size() == 2 * kThreshold + 1; }, own)) ::_exit(5);
        for (int i = 0; i < 5000; ++i) module.progress(1);  // the box becomes idle
        board_->victim = 1;
        while (board_->survivor != 1) std::this_thread::yield();
        step_mark();
        while (own.received.size() == 2 * kThreshold + 1) module.progress(64);
        step_mark();
        if (fast_boxes(module).accepted() != 1) ::_exit(6);
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
  [[nodiscard]] static Side::Open settings() { return sm::with(forced(GetParam()[0], GetParam()[1])); }
};
INSTANTIATE_TEST_SUITE_P(By, SmKillInAPull,
                         ::testing::Values(std::array<std::string_view, 2>{"pipelined", "none"},
                                           std::array<std::string_view, 2>{"pipelined", "cma"},
                                           std::array<std::string_view, 2>{"cooperative", "cma"}),
                         [](const auto& info) {
                           return std::string{info.param[0]} + "_" + std::string{info.param[1]};
                         });

TEST_P(SmKillInAPull, AnywhereOnTheInitiatorsSide) {
  Side side{settings()};
  const auto blob = side.blob();
  const auto memory = pattern(size_, 1);
  const auto handle =
      *side.module().register_memory(const_cast<std::byte*>(memory.data()), memory.size(), Rights::remote_read);
  kill_everywhere(
      {&side},
      [&] {
        Side own{settings()};
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
  Side side{settings()};
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
        Side own{settings()};
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
        while ((post == Post::queued && got.calls == 0) || mapped_pools(*route) == 0) own.module().progress(64);
        step_mark();
      },
      [] {});
}

}  // namespace
}  // namespace opal::btl::sm
