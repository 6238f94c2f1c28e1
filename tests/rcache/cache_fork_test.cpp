// SPDX-License-Identifier: Apache-2.0
// A forked child starts with empty caches and undoes nothing of its parent's; the parent notices nothing.
#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "opal/rcache/cache.hpp"
#include "tests/harness/in_child.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using opal::test::in_child;
using test::at;
using test::FakeDevice;
using test::kPage;

class CacheFork : public testing::TestWithParam<Config> {};

/// Before main(), and after libopal was loaded.
const long g_fence_at_load = ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);

TEST(Load, RegistersTheProcessForFencesWhileItHasOneThread) {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0 || (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) GTEST_SKIP() << "needs membarrier(2)";
  EXPECT_EQ(g_fence_at_load, 0) << "later the kernel waits for an RCU grace period";
}

TEST_P(CacheFork, TheChildRegistersAnewAndUndoesNothingOfItsParents) {
  FakeDevice device;
  Cache cache{device, GetParam(), kPage};
  Lease in_use = *cache.get(at(kPage), kPage, 1);
  ASSERT_TRUE(cache.get(at(8 * kPage), kPage, 1));
  const auto before = cache.statistics();
  EXPECT_EQ(in_child([&] {
              const auto now = cache.statistics();
              if (now.registered.count != 0 || now.idle.count != 0 || now.hits != 0) return 1;
              const auto calls = device.register_calls;
              {
                const auto again = cache.get(at(kPage), kPage, 1);
                if (!again || again->get() == in_use.get() || device.register_calls != calls + 1) return 2;
                if (!(*again)->valid()) return 3;
              }
              const auto undone = device.deregistered.size();
              in_use.reset();  // the parent's: harmless
              if (device.deregistered.size() != undone) return 4;
              if (cache.invalidate(at(0), 6 * kPage) > 1) return 5;
              cache.flush();
              if (cache.statistics().registered.count != 0) return 6;
              std::thread{[&] { (void)cache.get(at(kPage), kPage, 1); }}.join();
              return 0;
            }),
            0);
  EXPECT_TRUE(in_use->valid());
  EXPECT_EQ(cache.statistics().registered.count, before.registered.count);
  const auto calls = device.register_calls;
  EXPECT_TRUE(cache.get(at(kPage), kPage, 1));
  EXPECT_EQ(device.register_calls, calls) << "still a hit";
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheFork,
                         testing::Values(Config{}, Config{.overlap = Overlap::page_refcount},
                                         Config{.leave_pinned = false}),
                         [](const auto& info) {
                           return std::string{test::name(info.param.overlap)} +
                                  (info.param.leave_pinned ? "" : "_not_pinned");
                         });

TEST(CacheForkUnderLoad, ForksWhileOtherThreadsUseTheCacheLeaveItUsable) {
  struct Silent final : Device {
    Result<void> register_memory(Registration&) noexcept override { return {}; }
    void deregister_memory(Registration&) noexcept override {}
  } device;
  Cache cache{device, {.count_limit = 20}, kPage};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      for (std::uintptr_t i = id; !stop; ++i) (void)cache.get(at((1 + i % 50) * 2 * kPage), kPage, 1);
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] {
                for (std::uintptr_t j = 0; j < 100; ++j) {
                  if (!cache.get(at((1 + j) * 2 * kPage), kPage, 1)) return 1;
                }
                return cache.statistics().registered.count == 20 ? 0 : 2;
              }),
              0);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(cache.statistics().failures, 0u);
}

}  // namespace
}  // namespace opal::rcache
