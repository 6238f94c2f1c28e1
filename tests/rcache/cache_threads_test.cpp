// SPDX-License-Identifier: Apache-2.0
// Several threads on one cache: borrowed memory stays registered, limits hold, nothing is lost.  Meant for TSan too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "opal/core/sync/asymmetric_fence.hpp"
#include "opal/rcache/cache.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::kPage;

/// Room for `capacity` registrations; knows which are live.
class SharedDevice final : public Device {
 public:
  explicit SharedDevice(std::size_t capacity) : capacity_(capacity) {}

  Result<void> register_memory(Registration& registration) noexcept override {
    const std::lock_guard lock{mutex_};
    if (live_.size() >= capacity_) return Error{Errc::no_memory, 12, "SharedDevice(full)"};
    live_.insert(++last_);
    registration.cookie().set(last_);
    ++registered_;
    return {};
  }
  void deregister_memory(Registration& registration) noexcept override {
    const std::lock_guard lock{mutex_};
    if (live_.erase(registration.cookie().get<std::uint64_t>()) != 1) ++errors;
  }
  [[nodiscard]] bool knows(const Registration& registration) {
    const std::lock_guard lock{mutex_};
    return live_.count(registration.cookie().get<std::uint64_t>()) == 1;
  }
  [[nodiscard]] std::size_t live() {
    const std::lock_guard lock{mutex_};
    return live_.size();
  }
  [[nodiscard]] std::uint64_t registered() {
    const std::lock_guard lock{mutex_};
    return registered_;
  }
  std::atomic<int> errors{0};

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> live_;
  std::uint64_t last_ = 0;
  std::uint64_t registered_ = 0;
};

struct Churn {
  bool leave_pinned;
  std::size_t capacity;
  std::uint64_t count_limit;
  asymmetric_fence::Kernel kernel = asymmetric_fence::Kernel::as_it_is;  // a sandbox may have no membarrier
};

class CacheThreads : public testing::TestWithParam<Churn> {};

TEST_P(CacheThreads, ChurnOverTheSameMemoryNeverLosesARegistrationInUse) {
  constexpr unsigned kThreads = 4;
  // Of the kernel that refuses later each fence is a wait of a millisecond.
  const int steps = GetParam().kernel == asymmetric_fence::Kernel::refuses_later ? 1'000 : 8'000;
  constexpr std::size_t kHeld = 4;  // per thread; capacities below leave room for all of them
  asymmetric_fence::pretend_for_tests(GetParam().kernel);
  SharedDevice device{GetParam().capacity};
  std::atomic<int> failures{0};
  std::atomic<std::uint64_t> gets{0};
  {
    Cache cache{device, {.leave_pinned = GetParam().leave_pinned, .count_limit = GetParam().count_limit}, kPage};
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < kThreads; ++id) {
      threads.emplace_back([&, id] {
        std::mt19937 random{id};
        std::vector<Lease> held;
        for (int step = 0; step < steps; ++step) {
          const std::uintptr_t address = kPage * (1 + random() % 100);
          const std::size_t length = kPage * (1 + random() % 5);
          if (held.size() < kHeld) {
            auto got = cache.get(at(address), length, 1 + random() % 2);
            ++gets;
            if (!got) {
              ADD_FAILURE() << to_string(got.error());
              continue;
            }
            held.push_back(std::move(*got));
          } else {
            Lease& one = held[random() % held.size()];
            if (!device.knows(*one)) ++failures;
            std::swap(one, held.back());
            held.pop_back();
          }
          if (random() % 50 == 0) cache.invalidate(at(address), length);
        }
        for (const Lease& lease : held) {
          if (!device.knows(*lease)) ++failures;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
    const Statistics end = cache.statistics();
    EXPECT_EQ(end.registered.count, device.live());
    EXPECT_EQ(end.hits + end.misses, gets);
    cache.flush();
    EXPECT_EQ(device.live(), 0u);
  }
  EXPECT_EQ(device.errors, 0);
  asymmetric_fence::pretend_for_tests(asymmetric_fence::Kernel::as_it_is);
}

// Each thread holds at most 4, and may register one more while it does: with room for 4 * 5 none is ever refused.
INSTANTIATE_TEST_SUITE_P(Limits, CacheThreads,
                         testing::Values(Churn{true, 1'000'000, 0}, Churn{true, 20, 0}, Churn{true, 1'000'000, 20},
                                         Churn{false, 20, 0}, Churn{true, 20, 0, asymmetric_fence::Kernel::refuses},
                                         Churn{true, 20, 0, asymmetric_fence::Kernel::refuses_later},
                                         Churn{true, 1'000'000, 20, asymmetric_fence::Kernel::refuses},
                                         Churn{true, 1'000'000, 20, asymmetric_fence::Kernel::refuses_later}),
                         [](const auto& info) {
                           return std::string{info.param.leave_pinned ? "Pinned" : "NotPinned"} +
                                  std::to_string(info.index);
                         });

/// One thread gives up the only registration the device has room for while another one wants a new one.
class CacheHandOver : public testing::Test {
 protected:
  /// Runs the two; returns what the second one got.
  Errc outcome() {
    device_.capacity = 1;
    Lease first = *cache_.get(at(kPage), kPage, 1);
    std::thread giver{[&] { first.reset(); }};
    while (!giving_up_) std::this_thread::yield();
    const auto second = cache_.get(at(8 * kPage), kPage, 1);
    giver.join();
    return second ? Errc{} : second.error().code;
  }
  test::FakeDevice device_;
  Cache cache_{device_, {.leave_pinned = false}, kPage};
  std::atomic<bool> giving_up_{false};
  std::atomic<bool> refused_{false};
};

TEST_F(CacheHandOver, AThreadWithoutRoomWaitsForADeregistrationUnderWay) {
  device_.during_deregister = [&] {
    giving_up_ = true;
    while (!refused_) std::this_thread::yield();
  };
  device_.on_full = [&] { refused_ = true; };
  EXPECT_EQ(outcome(), Errc{}) << "nothing is idle, but room is about to appear";
}

TEST_F(CacheHandOver, RoomThatAppearsBetweenTheRefusalAndTheLookForVictimsIsUsed) {
  device_.during_deregister = [&] {
    giving_up_ = true;
    while (!refused_) std::this_thread::yield();
  };
  device_.on_full = [&] {
    refused_ = true;
    while (cache_.statistics().registered.count != 1) std::this_thread::yield();  // only the new one is left
  };
  EXPECT_EQ(outcome(), Errc{});
}

TEST(CacheLeases, MayEndOnAnotherThreadThanTheyBegan) {
  SharedDevice device{1};
  Cache cache{device, {}, kPage};
  for (int i = 0; i < 1000; ++i) {
    Lease lease = *cache.get(at(kPage), kPage, 1);
    std::thread{[lease = std::move(lease)]() mutable { lease.reset(); }}.join();
    if (i % 100 == 0) {
      ASSERT_TRUE(cache.get(at(8 * kPage), kPage, 1)) << "the only room is idle again";
    }
  }
  EXPECT_EQ(device.errors, 0);
}

TEST(CacheLeases, OfThreadsThatHaveEndedStillCount) {
  SharedDevice device{1};
  Cache cache{device, {}, kPage};
  Lease lease;
  std::thread{[&] { lease = *cache.get(at(kPage), kPage, 1); }}.join();
  for (int i = 0; i < 10; ++i) {  // each takes over what an ended thread left behind
    std::thread{[&] {
      EXPECT_EQ(cache.get(at(8 * kPage), kPage, 1).error().code, Errc::limit_reached);
      EXPECT_TRUE(cache.get(at(kPage), kPage, 1));
    }}.join();
  }
  lease.reset();
  EXPECT_TRUE(cache.get(at(8 * kPage), kPage, 1));
}

TEST(CacheLeases, OfMoreRegistrationsAtATimeThanAThreadHasSlotsAllCount) {
  constexpr std::size_t kLeases = 3 * LeaseTable::kSlots;
  SharedDevice device{kLeases};
  Cache cache{device, {}, kPage};
  std::vector<Lease> leases;
  for (std::uintptr_t i = 1; i <= kLeases; ++i) leases.push_back(*cache.get(at(i * 2 * kPage), kPage, 1));
  for (std::uintptr_t i = 1; i <= kLeases; ++i) leases.push_back(*cache.get(at(i * 2 * kPage), kPage, 1));
  EXPECT_EQ(cache.statistics().idle.count, 0u);
  EXPECT_EQ(cache.get(at(kPage * 1'000'000), kPage, 1).error().code, Errc::limit_reached);
  std::mt19937 random{1};
  std::shuffle(leases.begin(), leases.end(), random);
  leases.resize(kLeases / 2);
  EXPECT_GT(cache.statistics().idle.count, 0u);
  leases.clear();
  EXPECT_EQ(cache.statistics().idle.count, kLeases);
}

TEST(CacheThreadsReading, WhileOthersEvictAndInvalidateWhatTheyReadOnlyEverSeeWhatTheyAskedFor) {
  constexpr std::uintptr_t kRegions = 64;
  SharedDevice device{48};
  Cache cache{device, {}, kPage};
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> readers;
  for (unsigned id = 0; id < 3; ++id) {
    readers.emplace_back([&, id] {
      std::mt19937 random{id};
      while (!stop) {
        const std::uintptr_t address = kPage * (1 + 2 * (random() % kRegions));
        const auto lease = cache.get(at(address), kPage, 1);
        if (!lease || !(*lease)->contains(address, address + kPage) || !device.knows(**lease)) ++failures;
      }
    });
  }
  std::mt19937 random{9};
  for (int i = 0; i < 5'000; ++i) {
    cache.invalidate(at(kPage * (1 + 2 * (random() % kRegions))), kPage);
    if (i % 500 == 0) cache.flush();
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(failures, 0);
  cache.flush();
  EXPECT_EQ(device.live(), 0u);
}

}  // namespace
}  // namespace opal::rcache
