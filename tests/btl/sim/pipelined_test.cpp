// SPDX-License-Identifier: Apache-2.0
// Whole address spaces over a device that registers single ranges, and only so many.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string_view>

#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/btl/sim/world.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWindow = 64 << 10;
constexpr std::size_t kLarge = 1 << 20;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

rcache::Config small_window() {
  rcache::Config config;
  config.max_chunk = ByteSize{kWindow};
  return config;
}

/// A side whose module has a cache, as under a Context.
struct Cached {
  explicit Cached(Side& side) : side(side), device(side.module()), cache(device, small_window()) {
    side.module().use_registrations(&cache);
  }
  ~Cached() { side.module().use_registrations(nullptr); }
  Cached(const Cached&) = delete;
  Cached& operator=(const Cached&) = delete;

  [[nodiscard]] btl::sim::Memory& memory() const { return World::module(side).memory(); }
  [[nodiscard]] btl::PipelinedTransfers& transfers() const { return *side.module().transfers(); }

  Side& side;
  ModuleDevice device;
  rcache::Cache cache;
};

/// Two sides whose modules have caches.
class OverADevice : public ::testing::Test {
 protected:
  void expect_all_given_back() {
    EXPECT_EQ(at_b.transfers().lent(), 0U);
    at_a.cache.flush();
    at_b.cache.flush();
    EXPECT_EQ(at_a.memory().use().count, 0U);
    EXPECT_EQ(at_b.memory().use().count, 0U);
  }
  Post put(const std::vector<std::byte>& source, const void* to, const MemoryHandle& remote, Completion& completion) {
    return a.module().put(to_b, source.data(), nullptr, address_of(to), remote, source.size(), completion);
  }
  Post get(std::vector<std::byte>& into, const void* from, const MemoryHandle& remote, Completion& completion) {
    return a.module().get(to_b, into.data(), nullptr, address_of(from), remote, into.size(), completion);
  }
  /// The error of one operation, and that it is told exactly once.
  Errc finish(const std::function<Post(Completion&)>& operation) {
    CountedCompletion completion;
    const Post post = operation(completion);
    EXPECT_NE(post, Post::again);
    if (post == Post::queued) {
      EXPECT_EQ(completion.calls, 0);
      EXPECT_TRUE(world.run_until([&] { return completion.calls != 0; }));
    }
    world.run();
    EXPECT_EQ(completion.calls, post == Post::queued ? 1 : 0);
    EXPECT_TRUE(at_a.transfers().idle() && at_b.transfers().idle());
    return completion.error.code;
  }

  World world;
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint& to_b = *a.connect(b);
  Cached at_a{a};
  Cached at_b{b};
};

/// Everything that the process has mapped, behind b's device.
class BehindADevice : public OverADevice {
 protected:
  void SetUp() override {
    const memory::Choice& choice = memory::start_monitor({});
    if (choice.monitor == nullptr || std::string_view{choice.monitor} != "patcher") {
      GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
    }
    auto handle = b.registrations().add_address_space(Rights::all);
    ASSERT_TRUE(handle) << to_string(handle.error());
    everything = *handle;
  }
  MemoryHandle everything;
};

TEST_F(OverADevice, AnyNumberOfTransfersLeavesRoomForTheirPieces) {
  auto target = *Mapping::anonymous(kLarge);
  const MemoryHandle range = *b.registrations().add(target.data(), kLarge, Rights::all);
  const auto small = pattern(8, 7);
  const auto large = pattern(kWindow + kPage, 8);
  const auto remote = b.module().register_memory(target.data(), target.size(), Rights::all);
  ASSERT_TRUE(remote);
  std::vector<CountedCompletion> transfers(btl::RdmaOperations::kMost);
  std::size_t posted = 0;
  const auto post_transfers = [&] {
    while (posted < transfers.size() && put(large, target.data(), range, transfers[posted]) == Post::queued) ++posted;
  };
  // Every small operation that ends hands its place in the table to a transfer.
  struct Small : Completion {
    std::function<void()> ended;
  };
  std::vector<Small> operations(btl::RdmaOperations::kMost);
  for (Small& operation : operations) {
    operation.ended = post_transfers;
    operation.fn = [](Completion& self) noexcept { static_cast<Small&>(self).ended(); };
    ASSERT_EQ(put(small, target.data(), *remote, operation), Post::queued);
  }
  EXPECT_TRUE(world.run_until([&] {
    post_transfers();
    return posted == transfers.size() && transfers.back().calls != 0;
  }));
  world.run();
  for (const CountedCompletion& transfer : transfers) EXPECT_TRUE(transfer.ok() && transfer.calls == 1);
}

TEST_F(OverADevice, FlushWaitsForAllPieces) {
  auto target = *Mapping::anonymous(kLarge);
  const MemoryHandle range = *b.registrations().add(target.data(), kLarge, Rights::all);
  const auto source = pattern(kLarge, 3);
  CountedCompletion moved;
  CountedCompletion flushed;
  ASSERT_EQ(put(source, target.data(), range, moved), Post::queued);
  ASSERT_EQ(a.module().flush(&to_b, flushed), Post::queued);
  ASSERT_TRUE(world.run_until([&] { return flushed.calls != 0; }));
  EXPECT_EQ(moved.calls, 1);
  EXPECT_EQ(std::memcmp(target.data(), source.data(), kLarge), 0);
  world.run();
  expect_all_given_back();
}

TEST_F(OverADevice, DisconnectingEndsItOnce) {
  auto target = *Mapping::anonymous(kLarge);
  const MemoryHandle range = *b.registrations().add(target.data(), kLarge, Rights::all);
  const auto source = pattern(kLarge, 6);
  CountedCompletion moved;
  ASSERT_EQ(put(source, target.data(), range, moved), Post::queued);
  for (int i = 0; i < 10; ++i) (void)world.fabric().step();
  world.settle();
  a.module().disconnect(to_b);
  EXPECT_EQ(moved.calls, 1);
  EXPECT_EQ(moved.error.code, Errc::canceled);
  world.run();
  EXPECT_EQ(moved.calls, 1);
  expect_all_given_back();
}

TEST_F(BehindADevice, LargeTransfersGoThroughRegistrationsThatAreLent) {
  auto memory = *Mapping::anonymous(kLarge);
  const auto source = pattern(kLarge, 7);
  EXPECT_EQ(finish([&](Completion& c) { return put(source, memory.data(), everything, c); }), Errc{});
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), kLarge), 0);
  EXPECT_GE(at_b.memory().use().registered, kLarge / kWindow);
  EXPECT_GE(world.fabric().statistics().transfers, kLarge / kWindow);
  std::vector<std::byte> back(kLarge);
  EXPECT_EQ(finish([&](Completion& c) { return get(back, memory.data(), everything, c); }), Errc{});
  EXPECT_EQ(back, source);
  expect_all_given_back();
}

TEST_F(BehindADevice, ADeviceOfFewRegistrationsReachesAnyNumberOfMappings) {
  at_b.memory().set_limits({.count = 2, .bytes = 2 * kWindow});
  constexpr std::size_t kMappings = 200;
  std::vector<Mapping> memory;
  for (std::size_t i = 0; i < kMappings; ++i) memory.push_back(*Mapping::anonymous(2 * kWindow));
  for (std::size_t i = 0; i < kMappings; ++i) {
    const auto source = pattern(2 * kWindow, static_cast<std::uint32_t>(i));
    ASSERT_EQ(finish([&](Completion& c) { return put(source, memory[i].data(), everything, c); }), Errc{});
    ASSERT_EQ(std::memcmp(memory[i].data(), source.data(), source.size()), 0);
  }
  EXPECT_LE(at_b.memory().use().most_count, 2U);
  EXPECT_GT(at_b.cache.statistics().evictions, kMappings);
  expect_all_given_back();
}

TEST_F(BehindADevice, WhatTheDeviceHasNoRoomForGoesByMessages) {
  at_b.memory().set_limits({.count = 0});
  auto memory = *Mapping::anonymous(kLarge);
  const auto source = pattern(kLarge, 8);
  EXPECT_EQ(finish([&](Completion& c) { return put(source, memory.data(), everything, c); }), Errc{});
  EXPECT_EQ(std::memcmp(memory.data(), source.data(), kLarge), 0);
  at_a.memory().set_limits({.count = 0});
  std::vector<std::byte> back(kLarge);
  EXPECT_EQ(finish([&](Completion& c) { return get(back, memory.data(), everything, c); }), Errc{});
  EXPECT_EQ(back, source);
  expect_all_given_back();
}

TEST_F(BehindADevice, TwoThatLendEachOtherTheirLastRegistrationDoNotWaitForEver) {
  const auto at_a_everything = a.registrations().add_address_space(Rights::all);
  ASSERT_TRUE(at_a_everything);
  btl::Endpoint& to_a = *b.connect(a);
  for (const std::uint64_t room : {1U, 2U, 3U}) {
    at_a.memory().set_limits({.count = room});
    at_b.memory().set_limits({.count = room});
    auto of_a = *Mapping::anonymous(kLarge);
    auto of_b = *Mapping::anonymous(kLarge);
    const auto source = pattern(kLarge, 9);
    std::vector<CountedCompletion> done(8);
    for (std::size_t i = 0; i < done.size(); i += 2) {
      ASSERT_EQ(put(source, of_b.data(), everything, done[i]), Post::queued);
      ASSERT_EQ(
          b.module().put(to_a, source.data(), nullptr, address_of(of_a.data()), *at_a_everything, kLarge, done[i + 1]),
          Post::queued);
    }
    world.run();
    for (const CountedCompletion& each : done) {
      EXPECT_EQ(each.calls, 1);
      EXPECT_TRUE(each.ok());
    }
    EXPECT_EQ(std::memcmp(of_a.data(), source.data(), kLarge), 0);
    EXPECT_EQ(std::memcmp(of_b.data(), source.data(), kLarge), 0);
    expect_all_given_back();
  }
}

TEST_F(BehindADevice, NothingMovesUnlessAllOfItIsMappedWithTheRight) {
  auto memory = *Mapping::anonymous(kLarge);
  const std::vector<std::byte> source(kLarge, std::byte{1});
  ASSERT_EQ(::mprotect(memory.data() + kLarge - kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(finish([&](Completion& c) { return put(source, memory.data(), everything, c); }), Errc::permission);
  EXPECT_EQ(memory.data()[0], std::byte{0});
  ASSERT_EQ(::munmap(memory.data() + kLarge - kPage, kPage), 0);
  EXPECT_EQ(finish([&](Completion& c) { return put(source, memory.data(), everything, c); }), Errc::invalid_argument);
  EXPECT_EQ(memory.data()[0], std::byte{0});
  expect_all_given_back();
}

TEST_F(BehindADevice, AtomicsAndSmallOnesNeedNoRegistration) {
  alignas(8) std::uint64_t word = 5;
  std::uint64_t old = 0;
  EXPECT_EQ(finish([&](Completion& c) {
              return a.module().atomic(to_b,
                                       {.op = AtomicOp::add,
                                        .type = AtomicType::u64,
                                        .remote_address = address_of(&word),
                                        .remote = &everything,
                                        .operand = 3,
                                        .result = &old},
                                       c);
            }),
            Errc{});
  EXPECT_EQ(old, 5U);
  EXPECT_EQ(word, 8U);
  EXPECT_EQ(finish([&](Completion& c) { return put(pattern(8, 10), &word, everything, c); }), Errc{});
  EXPECT_EQ(std::memcmp(&word, pattern(8, 10).data(), 8), 0);
  EXPECT_EQ(at_b.memory().use().registered, 0U);
}

TEST_F(BehindADevice, WhatWasLentComesBackWhenThePeerGoes) {
  auto memory = *Mapping::anonymous(kLarge);
  const auto source = pattern(kLarge, 11);
  for (const bool crash : {false, true}) {
    Side& c = world.add();
    btl::Endpoint& to = *c.connect(b);
    Cached at_c{c};
    CountedCompletion done;
    ASSERT_EQ(c.module().put(to, source.data(), nullptr, address_of(memory.data()), everything, kLarge, done),
              Post::queued);
    ASSERT_TRUE(world.run_until([&] { return at_b.transfers().lent() != 0; }));
    if (crash) {
      world.fabric().crash(World::node(c), btl::sim::Crash::process);
      ASSERT_TRUE(world.run_until([&] { return at_b.transfers().lent() == 0; }));
      EXPECT_EQ(done.calls, 0) << "the crashed side runs nothing";
      c.module().disconnect(to);
    } else {
      c.module().disconnect(to);
      EXPECT_EQ(done.error.code, Errc::canceled);
      ASSERT_TRUE(world.run_until([&] { return at_b.transfers().lent() == 0; }));
    }
    EXPECT_EQ(done.calls, 1);
    world.run();
  }
  expect_all_given_back();
}

TEST_F(BehindADevice, AMappingThatGoesUnderATransferFailsThatTransferAlone) {
  void* const place = ::mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto other = *Mapping::anonymous(kLarge);
  const auto source = pattern(kLarge, 12);
  CountedCompletion lost;
  CountedCompletion kept;
  ASSERT_EQ(put(source, place, everything, lost), Post::queued);
  ASSERT_EQ(put(source, other.data(), everything, kept), Post::queued);
  ASSERT_TRUE(world.run_until([&] { return at_b.transfers().lent() != 0; }));
  at_b.cache.invalidate(place, kLarge);  // as the monitor does, inside the munmap
  ::munmap(place, kLarge);
  world.run();
  EXPECT_EQ(lost.error.code, Errc::invalid_argument);
  EXPECT_TRUE(kept.ok());
  EXPECT_EQ(std::memcmp(other.data(), source.data(), kLarge), 0);
  expect_all_given_back();
}

TEST_F(BehindADevice, NonsenseFromAPeerIsRefused) {
  auto memory = *Mapping::anonymous(kLarge);
  namespace wire = btl::wire;
  const auto send = [&](Tag tag, const auto& header) {
    ASSERT_EQ(a.module().send_inline(to_b, tag, bytes_of(header), everything.bytes()), Post::done);
    world.run();
    EXPECT_EQ(at_b.transfers().lent(), 0U);
  };
  const std::uint64_t at = address_of(memory.data());
  send(wire::kLendRequest, wire::LendRequest{1, at, kLarge, at - kPage, kPage, 1, 0});     // before its transfer
  send(wire::kLendRequest, wire::LendRequest{1, at, kPage, at, kLarge, 1, 0});             // beyond it
  send(wire::kLendRequest, wire::LendRequest{1, at, kLarge, at, kLarge, 3, 0});            // more than one right
  send(wire::kLendRequest, wire::LendRequest{1, 0, kLarge, 0, kLarge, 1, 0});              // not mapped
  send(wire::kLendRequest, wire::LendRequest{1, at, ~std::uint64_t{0}, at, kPage, 1, 0});  // wraps
  send(wire::kLentReturn, wire::LentReturn{~std::uint64_t{0}});
  send(wire::kLent, wire::Lent{7, 0, 9, 0});
  expect_all_given_back();
}

TEST(FirstChunk, PiecesEndAtMultiplesOfTheChunk) {
  constexpr std::size_t kChunk = 2 << 20;
  std::uintptr_t address = 0x7f0000100123;
  std::size_t left = (9 << 20) + 77;
  std::vector<std::size_t> pieces;
  while (left > 0) {
    pieces.push_back(btl::first_chunk(address, left, kChunk));
    address += pieces.back();
    left -= pieces.back();
    if (left > 0) {
      EXPECT_EQ(address % kChunk, 0u);
    }
  }
  ASSERT_EQ(pieces.size(), 6u) << "a head up to the first multiple, four whole ones, a tail";
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(pieces[i], kChunk);
  EXPECT_EQ(btl::first_chunk(123, 456, 0), 456u);
}

}  // namespace
}  // namespace opal::test
