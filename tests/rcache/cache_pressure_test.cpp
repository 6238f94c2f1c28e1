// SPDX-License-Identifier: Apache-2.0
// A working set a hundred times larger than what may be registered, used by several threads: no failure, no growth.
// A second for each policy; OPAL_TEST_PRESSURE_SECONDS says otherwise (./test --all: a minute each).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/sanitizer.hpp"
#include "opal/rcache/cache.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::kPage;

constexpr std::int64_t kCapacity = 1000;
constexpr std::uintptr_t kRegions = 100'000;
constexpr unsigned kThreads = 3;

/// Refuses the registration number kCapacity + 1.
class SmallDevice final : public Device {
 public:
  Result<void> register_memory(Registration&) noexcept override {
    if (live.fetch_add(1) >= kCapacity) {
      live.fetch_sub(1);
      return Error{Errc::no_memory, 12, "SmallDevice(full)"};
    }
    ++registered;
    return {};
  }
  void deregister_memory(Registration&) noexcept override { live.fetch_sub(1); }
  std::atomic<std::int64_t> live{0};
  std::atomic<std::uint64_t> registered{0};
};

std::chrono::seconds duration() {
  const char* const text = std::getenv("OPAL_TEST_PRESSURE_SECONDS");
  return std::chrono::seconds{text != nullptr ? std::max(1, std::atoi(text)) : 1};
}

std::uint64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

class CachePressure : public testing::TestWithParam<Overlap> {};

TEST_P(CachePressure, AWorkingSetFarBeyondADeviceOfAThousandNeitherFailsNorGrows) {
  SmallDevice device;
  Cache cache{device, {.overlap = GetParam()}, kPage};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> gets{0};
  std::atomic<std::uint64_t> failures{0};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random{id};
      for (; !stop; ++gets) {
        // A hot tenth of a percent is used half of the time: it must survive the stream of cold ones.
        const std::uintptr_t region = random() % 2 == 0 ? random() % 100 : random() % kRegions;
        if (!cache.get(at((1 + region) * 16 * kPage), 8 * kPage, 1)) ++failures;
      }
    });
  }
  while (gets < 20'000) std::this_thread::yield();  // by now everything has the size that it needs
  const std::uint64_t before = resident_bytes();
  const Deadline end = Deadline::after(duration());
  while (!end.expired()) std::this_thread::sleep_for(std::chrono::milliseconds{10});
  stop = true;
  for (auto& thread : threads) thread.join();
  const Statistics statistics = cache.statistics();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(statistics.failures, 0u);
  EXPECT_LE(statistics.registered.count, static_cast<std::uint64_t>(kCapacity));
  EXPECT_EQ(statistics.hits + statistics.misses, gets);
  EXPECT_GT(statistics.hits, gets * 4 / 10) << "LRU keeps the hot regions";
  if (!OPAL_ADDRESS_SANITIZER) {  // which keeps what was freed
    EXPECT_LT(resident_bytes(), before + (std::uint64_t{4} << 20)) << "memory grows";
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CachePressure, testing::Values(Overlap::containing, Overlap::page_refcount),
                         [](const auto& info) { return std::string{test::name(info.param)}; });

}  // namespace
}  // namespace opal::rcache
