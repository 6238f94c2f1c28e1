// SPDX-License-Identifier: Apache-2.0
// The fence of hits and evictions, above all when the kernel takes back what it had granted.
#include "opal/core/sync/asymmetric_fence.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/rcache/cache.hpp"
#include "tests/harness/refused_call.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using asymmetric_fence::fast;
using asymmetric_fence::Kernel;
using asymmetric_fence::make_all_fence;
using test::at;
using test::kPage;

class AsymmetricFence : public testing::Test {
 protected:
  void SetUp() override {
    asymmetric_fence::pretend_for_tests(Kernel::as_it_is);
    if (!fast()) GTEST_SKIP() << "this kernel has no membarrier(2) to take back";
  }
  void TearDown() override { asymmetric_fence::pretend_for_tests(Kernel::as_it_is); }
};

TEST_F(AsymmetricFence, ThatIsLostWaitsEachTimeForWhatOthersStoredBefore) {
  asymmetric_fence::pretend_for_tests(Kernel::refuses_later);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t start = now_ns();
    make_all_fence();
    EXPECT_GE(now_ns() - start, asymmetric_fence::kGrace);
  }
  EXPECT_TRUE(fast()) << "the others go on as before";
}

TEST_F(AsymmetricFence, BetweenProcessesThatIsLostWaitsEachTimeForWhatSendersStoredBefore) {
  if (!accept_remote_fences()) GTEST_SKIP() << "needs membarrier: this kernel has no global one";
  asymmetric_fence::pretend_for_tests(Kernel::refuses_later);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t start = now_ns();
    receiver_fence(true);
    EXPECT_GE(now_ns() - start, asymmetric_fence::kGrace);
  }
  EXPECT_FALSE(accept_remote_fences());
}

/// Two threads, each of which stores and then loads what the other one stores: one at least has to see the other.
/// Returns in how many rounds neither did, of `rounds`, or of as many as half a second allows on a busy machine;
/// `before(round)` runs before each, on the slow side.
int neither_saw_the_other(int rounds, const std::function<void(int)>& before) {
  std::atomic<std::uint64_t> from_fast{0};
  std::atomic<std::uint64_t> from_slow{0};
  std::atomic<int> begun{-1};
  std::atomic<int> done{-1};
  bool fast_saw = false;
  std::thread reader{[&] {
    for (int round = 0; round < rounds; ++round) {
      while (begun < round) std::this_thread::yield();
      if (begun == rounds) break;
      from_fast.store(1, std::memory_order_release);  // as LeaseTable::add
      asymmetric_fence::keep_order();
      if (!fast()) from_fast.exchange(1, std::memory_order_seq_cst);
      fast_saw = from_slow.load(std::memory_order_seq_cst) != 0;
      done = round;
    }
  }};
  int neither = 0;
  const Deadline enough = Deadline::after(std::chrono::milliseconds{500});
  for (int round = 0; round < rounds && !enough.expired(); ++round) {
    from_fast = from_slow = 0;
    before(round);
    begun = round;
    from_slow.store(1, std::memory_order_seq_cst);
    make_all_fence();
    const bool slow_saw = from_fast.load(std::memory_order_seq_cst) != 0;
    while (done != round) std::this_thread::yield();
    if (!slow_saw && !fast_saw) ++neither;
  }
  begun = rounds;
  reader.join();
  return neither;
}

TEST_F(AsymmetricFence, LetsOneSideSeeTheOtherWhereTheKernelMakesIt) {
  EXPECT_EQ(neither_saw_the_other(5'000, [](int) {}), 0);
}

TEST_F(AsymmetricFence, LetsOneSideSeeTheOtherAlsoAtTheMomentThatItIsLost) {
  EXPECT_EQ(neither_saw_the_other(100,
                                  [](int) {
                                    asymmetric_fence::pretend_for_tests(Kernel::as_it_is);
                                    asymmetric_fence::pretend_for_tests(Kernel::refuses_later);
                                  }),
            0);
}

TEST_F(AsymmetricFence, LetsOneSideSeeTheOtherWhereTheKernelAlwaysRefused) {
  asymmetric_fence::pretend_for_tests(Kernel::refuses);
  EXPECT_EQ(neither_saw_the_other(5'000, [](int) {}), 0);
}

/// Room for a few; knows which are live.
class SmallDevice final : public Device {
 public:
  static constexpr std::size_t kRoom = 16;

  Result<void> register_memory(Registration& registration) noexcept override {
    const std::lock_guard lock{mutex_};
    if (live_.size() == kRoom) return Error{Errc::no_memory, ENOMEM, "SmallDevice(full)"};
    registration.cookie().set(++last_);
    live_.insert(last_);
    return {};
  }
  void deregister_memory(Registration& registration) noexcept override {
    const std::lock_guard lock{mutex_};
    live_.erase(registration.cookie().get<std::uint64_t>());
  }
  bool knows(const Registration& registration) {
    const std::lock_guard lock{mutex_};
    return live_.count(registration.cookie().get<std::uint64_t>()) == 1;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> live_;
  std::uint64_t last_ = 0;
};

/// In a process of its own: threads use a cache far larger than its device while a sandbox closes around them.
/// Returns what went wrong; null when nothing did.
const char* close_sandbox_around_a_cache() {
  constexpr std::uintptr_t kRegions = 64;
  constexpr std::uint64_t kEvictions = 500;
  SmallDevice device;
  Cache cache{device, {}, kPage};
  if (!fast()) return "membarrier was refused before the filter";
  std::atomic<bool> stop{false};
  std::atomic<int> started{0};
  std::atomic<int> lost{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> users;
  for (unsigned id = 0; id < 3; ++id) {
    users.emplace_back([&, id] {
      std::mt19937 random{id};
      bool first = true;
      while (!stop) {
        const auto lease = cache.get(at(kPage * 2 * (1 + random() % kRegions)), kPage, 1);
        if (!lease) {
          ++failed;
        } else if (!device.knows(**lease)) {
          ++lost;
        }
        started += std::exchange(first, false) ? 1 : 0;
      }
    });
  }
  // A thread that is alone with a cache needs no other thread's fence: it would never ask the kernel.
  while (started < 3) std::this_thread::yield();
  const auto wait_for_evictions = [&](std::uint64_t more) {
    const std::uint64_t enough = cache.statistics().evictions + more;
    while (cache.statistics().evictions < enough && failed == 0) std::this_thread::yield();
  };
  wait_for_evictions(kEvictions);
  opal::test::refuse_system_call(SYS_membarrier, EPERM, SECCOMP_FILTER_FLAG_TSYNC);
  wait_for_evictions(kEvictions);
  stop = true;
  for (std::thread& user : users) user.join();
  if (failed != 0) return "a registration was refused";
  if (lost != 0) return "a registration in use was undone";
  return nullptr;
}

TEST_F(AsymmetricFence, ThatASandboxForbidsLaterCostsNoRegistrationInUse) {
  EXPECT_EXIT(
      {
        const char* const wrong = close_sandbox_around_a_cache();
        if (wrong != nullptr) std::fprintf(stderr, "%s\n", wrong);
        std::_Exit(wrong == nullptr ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace opal::rcache
