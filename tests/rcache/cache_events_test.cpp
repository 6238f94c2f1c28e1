// SPDX-License-Identifier: Apache-2.0
// Events that arrive at the worst moment, that hit a part of a registration, that come from a signal handler, and what
// many of them cost.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "opal/memory/events/events.hpp"
#include "tests/harness/stepper.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

constexpr Access kRead = 1;

const void* page(std::uintptr_t number) { return at(number * kPage); }

TEST(CacheEvents, WhatIsRegisteredBetweenAnEventAndTheKernelsActServesNoLaterRequest) {
  FakeDevice device;
  Cache cache{device, {}, kPage};
  {
    const memory::Releasing under_way{{16 * kPage, 20 * kPage}};
    cache.invalidate(page(16), 4 * kPage);
    cache.get(page(18), kPage, kRead)->reset();  // a peer asked for it
    EXPECT_TRUE(device.table.empty()) << "its pages are the old ones";
    const Lease beside = *cache.get(page(20), kPage, kRead);
  }
  EXPECT_EQ(device.table.size(), 1U) << "what is not being unmapped is kept";
  cache.get(page(18), kPage, kRead)->reset();
  EXPECT_EQ(device.table.size(), 2U) << "and so is this, now";
}

TEST(CacheEvents, MoreReleasesAtATimeThanThereArePlacesCountForEveryRange) {
  {
    std::vector<std::unique_ptr<memory::Releasing>> many;
    for (std::uintptr_t i = 1; i <= 100; ++i) {
      many.push_back(std::make_unique<memory::Releasing>(memory::Range{i * kPage, (i + 1) * kPage}));
    }
    EXPECT_TRUE(memory::being_released({1000 * kPage, 1001 * kPage}));
    EXPECT_TRUE(memory::being_released({kPage, 2 * kPage}));
  }
  EXPECT_FALSE(memory::being_released({kPage, 2 * kPage}));
}

// ---- A part of a registration

TEST(CacheEvents, ALeaseOutlivesTheUnmappingOfAnotherPartOfItsRegistration) {
  FakeDevice device;
  Cache cache{device, {}, kPage};
  cache.get(page(16), 8 * kPage, kRead)->reset();
  Lease first = *cache.get(page(16), 4 * kPage, kRead);
  ASSERT_EQ(first->length(), 8 * kPage) << "served by the larger one";
  EXPECT_EQ(cache.invalidate(page(20), 4 * kPage), 1U);
  EXPECT_TRUE(first->valid());
  EXPECT_TRUE(device.refused.empty());
  ASSERT_EQ(device.refused_parts.size(), 1U);
  EXPECT_EQ(device.refused_parts[0].second, (memory::Range{20 * kPage, 24 * kPage}));

  const auto calls = device.register_calls;
  const Lease again = *cache.get(page(16), 4 * kPage, kRead);
  EXPECT_EQ(device.register_calls, calls + 1) << "it serves no new request";
  EXPECT_EQ(cache.invalidate(page(16), 8 * kPage), 1U) << "the new one: the old one was counted before";
  EXPECT_FALSE(first->valid()) << "now all of it is gone";
  EXPECT_FALSE(again->valid());
  first.reset();
  EXPECT_EQ(device.deregistered.size(), 1U);
}

// ---- Cost

constexpr const char* kNeedsPtrace = "needs ptrace: x86-64 and a kernel that lets a process trace its child";

/// Instructions of an event for one of `count` idle registrations, after all others have been unmapped one by one.
std::optional<std::uint64_t> instructions_of_the_last_of(std::uintptr_t count) {
  struct Silent final : Device {
    Result<void> register_memory(Registration&) noexcept override { return {}; }
    void deregister_memory(Registration&) noexcept override {}
  };
  const auto steps = opal::test::count_steps([count] {
    Silent device;
    Cache cache{device, {}, kPage};
    for (std::uintptr_t i = 1; i <= count; ++i) (void)cache.get(page(2 * i), kPage, kRead);
    for (std::uintptr_t i = 1; i < count; ++i) cache.invalidate(page(2 * i), kPage);
    opal::test::step_mark();
    cache.invalidate(page(2 * count), kPage);
    opal::test::step_mark();
    opal::test::step_mark();
    cache.invalidate(page(1), kPage);  // of nothing
    opal::test::step_mark();
    std::_Exit(0);
  });
  if (!steps || steps->size() < 2) return std::nullopt;
  return (*steps)[0].instructions + (*steps)[1].instructions;
}

TEST(CacheEvents, AnEventCostsNoMoreAfterManyOthers) {
  const auto few = instructions_of_the_last_of(100);
  const auto many = instructions_of_the_last_of(20'000);
  if (!few || !many) GTEST_SKIP() << kNeedsPtrace;
  EXPECT_LT(*many, *few + 2000) << "logarithmic: nothing looks at what is invalid already";
}

// ---- A signal handler

class Interrupting final : public Device {
 public:
  Result<void> register_memory(Registration& registration) noexcept override {
    registration.cookie().set(registration.begin());
    return {};
  }
  void deregister_memory(Registration&) noexcept override {}
  void invalidated(const Registration&) noexcept override {
    if (armed) ::raise(SIGUSR1);  // the cache holds its lock
  }
  bool armed = false;
};

Cache* interrupted = nullptr;

TEST(CacheEvents, AHandlerThatUnmapsMayInterruptAThreadInsideTheLock) {
  Interrupting device;
  Cache cache{device, {}, kPage};
  interrupted = &cache;
  struct sigaction action {};
  action.sa_handler = [](int) { EXPECT_EQ(interrupted->invalidate(page(30), kPage), 0U); };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  cache.get(page(10), kPage, kRead)->reset();
  const Lease other = *cache.get(page(30), kPage, kRead);
  device.armed = true;
  EXPECT_EQ(cache.invalidate(page(10), kPage), 1U);  // without the handler's event being put off: blocked for ever
  device.armed = false;
  EXPECT_FALSE(other->valid()) << "applied when the lock was released";
  EXPECT_EQ(cache.statistics().invalidations, 2U);
  ::sigaction(SIGUSR1, &before, nullptr);
  interrupted = nullptr;
}

TEST(CacheEvents, MoreEventsOfHandlersThanCanBeKeptInvalidateEverything) {
  Interrupting device;
  Cache cache{device, {}, kPage};
  interrupted = &cache;
  struct sigaction action {};
  action.sa_handler = [](int) {
    for (std::uintptr_t i = 0; i < 100; ++i) interrupted->invalidate(page(1000 + i), kPage);
  };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  cache.get(page(10), kPage, kRead)->reset();
  const Lease other = *cache.get(page(30), kPage, kRead);
  device.armed = true;
  cache.invalidate(page(10), kPage);
  EXPECT_FALSE(other->valid());
  ::sigaction(SIGUSR1, &before, nullptr);
  interrupted = nullptr;
}

}  // namespace
}  // namespace opal::rcache
