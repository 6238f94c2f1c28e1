// SPDX-License-Identifier: Apache-2.0
// Two sides of the IPC protocol in every order in which their events can happen: GPU buffers at any time, either side
// getting its CUDA context at any time or never, messages under way for any time, answers held up by a full transport.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "opal/btl/smcuda/ipc_state.hpp"

namespace opal::btl::smcuda {
namespace {

struct Side {
  Ipc ipc;
  bool ready = false;        // has a CUDA context
  std::uint8_t buffers = 0;  // that it still sends
  std::string inbox;         // messages on their way to it, first in first out: kRequest, or a Capability as character

  [[nodiscard]] auto key() const { return std::tuple{ipc.state, ipc.attempts, ready, buffers, inbox}; }
  bool operator<(const Side& other) const { return key() < other.key(); }
};

using World = std::array<Side, 2>;

constexpr char kRequest = 'r';
bool yields(std::size_t side) { return side == 1; }

struct Model {
  bool access = true;  // between the devices
  std::array<bool, 2> becomes_ready{true, true};
  std::set<World> seen;
  std::size_t most_messages = 0;
  std::size_t ends = 0;
  std::size_t connected_ends = 0;

  void post(World& world, std::size_t to, char message) {
    world[to].inbox.push_back(message);
    most_messages = std::max(most_messages, world[to].inbox.size());
  }

  std::vector<World> successors(const World& world) {
    std::vector<World> next;
    for (const std::size_t self : {std::size_t{0}, std::size_t{1}}) {
      const std::size_t peer = 1 - self;
      const Side& side = world[self];
      if (side.buffers > 0 && side.ready) {  // a GPU buffer needs a context
        World after = world;
        --after[self].buffers;
        if (after[self].ipc.on_gpu_buffer()) post(after, peer, kRequest);
        next.push_back(after);
      }
      if (!side.ready && becomes_ready[self]) {
        World after = world;
        after[self].ready = true;
        next.push_back(after);
      }
      // While an answer waits for room the transport is full, but it goes on receiving.
      if (!side.inbox.empty()) {
        World after = world;
        const char message = after[self].inbox.front();
        after[self].inbox.erase(0, 1);
        if (message == kRequest) {
          (void)after[self].ipc.on_request(yields(self));  // if it is true, the state is acking
        } else {
          after[self].ipc.on_answer(static_cast<Capability>(message));
        }
        next.push_back(after);
      }
      if (side.ipc.state == IpcState::acking) {
        World after = world;
        const Capability answer = !side.ready ? Capability::not_ready : access ? Capability::yes : Capability::no;
        post(after, peer, static_cast<char>(answer));
        after[self].ipc.on_answered(answer);
        next.push_back(after);
      }
    }
    return next;
  }

  void check_always(const World& world) {
    for (const Side& side : world) {
      ASSERT_LE(side.ipc.attempts, Ipc::kAttempts);
      ASSERT_TRUE(!side.ipc.usable() || access) << "memory would be mapped without access";
    }
  }

  /// Nothing can happen any more.
  void check_end(const World& world) {
    ++ends;
    for (const Side& side : world) {
      ASSERT_NE(side.ipc.state, IpcState::sent) << "waits for ever for an answer";
      ASSERT_NE(side.ipc.state, IpcState::acking);
    }
    ASSERT_EQ(world[0].ipc.usable(), world[1].ipc.usable()) << "the two disagree";
    ASSERT_FALSE(world[0].ipc.state == IpcState::acked && world[1].ipc.state == IpcState::acked);
    ASSERT_FALSE(world[0].ipc.state == IpcState::ok && world[1].ipc.state == IpcState::ok);
    if (world[0].ipc.usable()) ++connected_ends;
  }

  void explore(const World& first) {
    std::vector<World> open{first};
    seen.insert(first);
    while (!open.empty()) {
      const World world = open.back();
      open.pop_back();
      check_always(world);
      if (::testing::Test::HasFatalFailure()) return;
      const std::vector<World> next = successors(world);
      if (next.empty()) check_end(world);
      if (::testing::Test::HasFatalFailure()) return;
      for (const World& after : next) {
        if (seen.insert(after).second) open.push_back(after);
      }
    }
  }
};

World with_buffers(std::uint8_t first, std::uint8_t second) {
  World world;
  world[0].buffers = first;
  world[1].buffers = second;
  return world;
}

constexpr std::uint8_t kMany = 7;  // more than there are attempts

TEST(SmcudaIpcModel, TwoSidesThatMayEndUpAgreedWhateverTheOrder) {
  Model model;
  model.explore(with_buffers(kMany, kMany));
  EXPECT_GT(model.seen.size(), 1000U) << "the model explored nearly nothing";
  EXPECT_GT(model.connected_ends, 0U);
  EXPECT_LE(model.most_messages, 3U) << "messages under way in one direction are bounded";
}

TEST(SmcudaIpcModel, WithoutAccessBetweenTheDevicesNeitherSideMapsAnything) {
  Model model;
  model.access = false;
  model.explore(with_buffers(kMany, kMany));
  EXPECT_GT(model.ends, 0U);
  EXPECT_EQ(model.connected_ends, 0U);
}

TEST(SmcudaIpcModel, ASideThatNeverGetsAContextIsAskedFiveTimes) {
  for (const std::size_t never : {std::size_t{0}, std::size_t{1}}) {
    Model model;
    model.becomes_ready[never] = false;
    model.explore(with_buffers(kMany, kMany));
    EXPECT_GT(model.ends, 0U);
    EXPECT_EQ(model.connected_ends, 0U);
  }
}

TEST(SmcudaIpcModel, EitherSideAloneCanStartIt) {
  for (const std::size_t starter : {std::size_t{0}, std::size_t{1}}) {
    Model model;
    World world;
    world[starter].buffers = 1;
    world[0].ready = world[1].ready = true;
    model.explore(world);
    EXPECT_GT(model.ends, 0U);
    EXPECT_EQ(model.connected_ends, model.ends) << "both were ready, one buffer is enough";
  }
}

TEST(SmcudaIpcModel, WhenBothAreReadyTheFirstBufferOfAnyConnectsThem) {
  Model model;
  World world = with_buffers(kMany, kMany);
  world[0].ready = world[1].ready = true;
  model.explore(world);
  EXPECT_EQ(model.connected_ends, model.ends);
}

}  // namespace
}  // namespace opal::btl::smcuda
