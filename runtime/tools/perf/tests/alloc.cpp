// SPDX-License-Identifier: Apache-2.0
// Allocators over 1 to 8 threads: OPAL's pool of shared memory, and this process's malloc, which LD_PRELOAD replaces.
// Each thread frees its oldest of 32 blocks and allocates another, over and over.
#include <array>
#include <cstdlib>

#include "opal/mpool/pool.hpp"
#include "runtime/tools/perf/tests/sample_concurrently.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

constexpr std::uint64_t kThreads[] = {1, 2, 4, 8};
constexpr std::uint64_t kRounds = 5;
constexpr std::uint64_t kCount = 20'000;
constexpr std::size_t kHeld = 32;

/// `allocate(size)` gives a block or null, `release(block)` takes it back.
template <class Allocate, class Release>
Result<void> measure(const char* name, const Plan& plan, const Report& report, Allocate allocate, Release release) {
  for (const std::uint64_t size : plan.sizes) {
    for (const std::uint64_t threads : kThreads) {
      const std::uint64_t count = plan.iterations != 0 ? plan.iterations : kCount;
      const auto replace_oldest = [&](std::uint64_t, std::uint64_t operations) -> Result<void> {
        std::array<void*, kHeld> held{};
        bool good = true;
        for (std::uint64_t i = 0; i < operations && good; ++i) {
          void*& place = held[i % kHeld];
          if (place != nullptr) release(place);
          place = allocate(size);
          good = place != nullptr;
        }
        for (void* block : held) {
          if (block != nullptr) release(block);
        }
        if (!good) return Error{Errc::no_memory, 0, "opal-perf alloc: the allocator refused", size};
        return {};
      };
      OPAL_TRY_ASSIGN(const Samples samples, sample_concurrently(threads, kRounds, count, replace_oldest));
      Row row{.test = "alloc", .btl = {}, .size = size, .iterations = samples.operations};
      row.op = name;
      row.threads = threads;
      row.latency = statistics(samples.ns);
      report(row);
    }
  }
  return {};
}

}  // namespace

Result<void> allocators(const Plan& plan, const Report& report) {
  OPAL_TRY_ASSIGN(const auto pool, mpool::open("shared"));
  OPAL_TRY(measure(
      "shared", plan, report,
      [&](std::size_t size) -> void* {
        const auto block = pool->allocate(size);
        return block ? *block : nullptr;
      },
      [&](void* block) { (void)pool->deallocate(static_cast<std::byte*>(block)); }));
  return measure(
      "malloc", plan, report, [](std::size_t size) { return std::malloc(size); },
      [](void* block) { std::free(block); });
}

}  // namespace opal::perf
