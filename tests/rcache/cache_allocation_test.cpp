// SPDX-License-Identifier: Apache-2.0
// Which calls allocate: hits and invalidations never do, and no lock is held while anything is allocated or freed, so
// an unmap event raised by the allocator may come back into the cache.  Replaces operator new of this whole program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <utility>

#include "opal/rcache/cache.hpp"
#include "tests/rcache/fake_device.hpp"

namespace {

thread_local std::size_t allocations = 0;
thread_local std::function<void()>* on_memory_event = nullptr;  // called by each allocation and release, if set

void memory_event() {
  ++allocations;
  if (on_memory_event == nullptr) return;
  auto* const event = std::exchange(on_memory_event, nullptr);  // what the event itself allocates raises no other
  (*event)();
  on_memory_event = event;
}

}  // namespace

// Where g++ inlines only one of a replaced pair, it believes that the two do not belong together.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
  memory_event();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc{};
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  memory_event();
  return std::malloc(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  memory_event();
  if (void* const memory = std::aligned_alloc(static_cast<std::size_t>(alignment), size)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept {
  memory_event();
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  memory_event();
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  memory_event();
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  memory_event();
  std::free(memory);
}

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

TEST(CacheAllocation, HitsPutsAndInvalidationsAllocateNothing) {
  FakeDevice device;
  Cache cache{device, {}, kPage};
  for (std::uintptr_t i = 1; i <= 100; ++i) ASSERT_TRUE(cache.get(at(i * 4 * kPage), kPage, 1));
  const std::size_t before = allocations;
  for (std::uintptr_t i = 1; i <= 100; ++i) {
    EXPECT_TRUE(cache.get(at(i * 4 * kPage), 100, 1));
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(cache.statistics().hits, 100u);

  struct Silent final : Device {  // FakeDevice notes invalidations in a set, which allocates
    Result<void> register_memory(Registration&) noexcept override { return {}; }
    void deregister_memory(Registration&) noexcept override {}
  } silent;
  Cache other{silent, {}, kPage};
  const Lease in_use = *other.get(at(kPage), kPage, 1);
  for (std::uintptr_t i = 2; i <= 100; ++i) ASSERT_TRUE(other.get(at(i * 4 * kPage), kPage, 1));
  const std::size_t before_event = allocations;
  EXPECT_EQ(other.invalidate(at(0), SIZE_MAX), 100u);
  EXPECT_EQ(allocations, before_event);
}

TEST(CacheAllocation, AnEventRaisedByEveryAllocationAndReleaseInsideTheCacheDoesNotDeadlock) {
  FakeDevice device;
  device.capacity = 50;
  Cache cache{device, {}, kPage};
  std::mt19937 random{3};
  std::size_t events = 0;
  std::function<void()> event = [&] {
    ++events;
    cache.invalidate(at(kPage * (1 + random() % 400)), kPage);  // would block for ever under the cache's own lock
  };
  for (int step = 0; step < 5'000; ++step) {
    on_memory_event = &event;
    const auto got = cache.get(at(kPage * (1 + random() % 400)), kPage, 1);
    if (step % 500 == 0) cache.flush();
    on_memory_event = nullptr;
    ASSERT_TRUE(got) << to_string(got.error());
  }
  EXPECT_GT(events, 5'000u);
  EXPECT_GT(cache.statistics().invalidations, 0u);
}

}  // namespace
}  // namespace opal::rcache
