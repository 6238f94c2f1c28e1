// SPDX-License-Identifier: Apache-2.0
// Registrations of a simulated device: limits, costs, accesses.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>

#include "opal/core/system/mapping.hpp"
#include "tests/btl/sim/world.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = 4 * kPage;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class SimMemory : public ::testing::Test {
 protected:
  Error finish(const std::function<Post(Completion&)>& operation) {
    CountedCompletion completion;
    const Post post = operation(completion);
    EXPECT_NE(post, Post::again);
    if (post == Post::queued) {
      EXPECT_TRUE(world.run_until([&] { return completion.calls == 1; }));
    }
    return completion.error;
  }
  Error get(void* destination, const void* source, const MemoryHandle& remote, std::size_t size) {
    return finish([&](Completion& completion) {
      return a.module().get(to_b, destination, nullptr, address_of(source), remote, size, completion);
    });
  }
  static btl::sim::MemoryUse use(Side& side) { return World::module(side).memory().use(); }

  World world;
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint& to_b = *a.connect(b);
};

TEST_F(SimMemory, OverALimitTheDeviceRefusesAndTheCacheEvicts) {
  World::module(b).memory().set_limits({.count = 10, .bytes = 100 * kPage});
  auto memory = *Mapping::anonymous(200 * kPage);
  ModuleDevice device{b.module()};
  rcache::Cache cache{device};
  std::memset(memory.data(), 1, memory.size());
  std::uint32_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525U + 1013904223U;
    std::byte* page = memory.data() + (random >> 8) % 200 * kPage;
    auto lease = cache.get(page, kPage, static_cast<rcache::Access>(Rights::all));
    ASSERT_TRUE(lease) << to_string(lease.error());
    if (i % 50 == 0) {
      std::uint64_t word = 0;
      ASSERT_EQ(get(&word, page, (*lease)->cookie().get<MemoryHandle>(), sizeof word).code, Errc{});
      EXPECT_EQ(word, 0x0101010101010101U);
    }
  }
  EXPECT_LE(use(b).most_count, 10U);
  EXPECT_GT(cache.statistics().evictions, 100U);
  EXPECT_GT(use(b).refused, 100U);
  const auto too_large = b.module().register_memory(memory.data(), 101 * kPage, Rights::all);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, Errc::limit_reached);
}

TEST_F(SimMemory, OutsideTheRegionNothingMoves) {
  std::vector<std::byte> target(kSize);
  const auto source = pattern(kSize, 4);
  const auto remote = b.module().register_memory(target.data(), kSize - 1, Rights::all);
  ASSERT_TRUE(remote);
  const Error error = finish([&](Completion& completion) {
    return a.module().put(to_b, source.data(), nullptr, address_of(target.data()), *remote, kSize, completion);
  });
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(target[0], std::byte{0});
}

TEST_F(SimMemory, ARegistrationCostsTheProcessorTime) {
  auto memory = *Mapping::anonymous(100 * kPage);
  world.run();
  const std::uint64_t begin = world.fabric().now_ns();
  ASSERT_TRUE(a.module().register_memory(memory.data(), 100 * kPage, Rights::all));
  ASSERT_EQ(a.module().send_inline(to_b, kTag, {}, {}), Post::done);
  world.run();
  EXPECT_GE(world.fabric().now_ns() - begin, 1000U + 100 * 100 + 1000) << "the message comes after the registration";
}

TEST_F(SimMemory, ARegistrationThatEndsUnderAnOperationFailsThatOperationAlone) {
  std::vector<std::byte> target(kSize);
  const auto source = pattern(kSize, 5);
  const auto first = b.module().register_memory(target.data(), kSize, Rights::all);
  const auto second = b.module().register_memory(target.data(), kSize, Rights::all);
  ASSERT_TRUE(first && second);
  CountedCompletion lost;
  CountedCompletion kept;
  const std::uint64_t address = address_of(target.data());
  ASSERT_EQ(a.module().put(to_b, source.data(), nullptr, address, *first, kSize, lost), Post::queued);
  ASSERT_EQ(a.module().put(to_b, source.data(), nullptr, address, *second, kSize, kept), Post::queued);
  ASSERT_TRUE(b.module().deregister_memory(*first));
  world.run();
  EXPECT_EQ(lost.error.code, Errc::invalid_argument);
  EXPECT_TRUE(kept.ok());
  EXPECT_EQ(target, source);
  EXPECT_FALSE(to_b.dead());
  EXPECT_EQ(world.fabric().statistics().faults, 1U);
}

TEST_F(SimMemory, AnUnmappedPageFailsTheOperation) {
  auto memory = *Mapping::anonymous(4 * kPage);
  const auto handle = b.module().register_memory(memory.data(), 4 * kPage, Rights::all);
  ASSERT_TRUE(handle);
  ASSERT_EQ(::mprotect(memory.data() + kPage, kPage, PROT_NONE), 0);
  std::vector<std::byte> read(4 * kPage);
  const auto get_from_b = [&](std::size_t offset, std::size_t size) {
    return finish([&](Completion& completion) {
      return a.module().get(to_b, read.data(), nullptr, address_of(memory.data()) + offset, *handle, size, completion);
    });
  };
  EXPECT_EQ(get_from_b(0, kPage).code, Errc{});
  EXPECT_EQ(get_from_b(kPage, kPage).code, Errc::invalid_argument);
  EXPECT_EQ(get_from_b(0, 4 * kPage).code, Errc::invalid_argument);
  EXPECT_EQ(get_from_b(2 * kPage, 2 * kPage).code, Errc{}) << "the device goes on";
}

}  // namespace
}  // namespace opal::test
