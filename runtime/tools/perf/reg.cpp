// SPDX-License-Identifier: Apache-2.0
// The registration cache over a device that costs nothing, so that only the cache is measured; and what a registration
// costs that is not cached, as far as any machine can show: pinning and unpinning the pages.
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "opal/core/mapping.hpp"
#include "opal/rcache/cache.hpp"
#include "runtime/tools/perf/crowd.hpp"
#include "runtime/tools/perf/tests.hpp"

namespace opal::perf {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kRounds = 7;

class FreeDevice final : public rcache::Device {
 public:
  Result<void> register_memory(rcache::Registration&) noexcept override { return {}; }
  void deregister_memory(rcache::Registration&) noexcept override {}
};

/// Addresses are only numbers to a cache over such a device.
const void* region(std::uint64_t index) {
  return reinterpret_cast<const void*>((1 + index) * kPage);  // NOLINT(performance-no-int-to-ptr)
}

class Measurement {
 public:
  Measurement(const Plan& plan, const Report& report) : plan_(plan), report_(report) {}

  /// `operation(thread, count)`, measured and reported.
  template <class Operation>
  Result<void> operator()(const char* op, std::uint64_t threads, std::uint64_t regions, std::uint64_t count,
                          Operation operation) const {
    const std::uint64_t share = std::max<std::uint64_t>(1, plan_.iterations / kRounds);
    const Samples samples = crowd(threads, kRounds, plan_.iterations != 0 ? share : count, operation);
    if (samples.operations == 0) return Error{Errc::internal, 0, "opal-perf reg: the cache refused", regions};
    Row row{.test = "reg", .btl = {}, .size = kPage, .iterations = samples.operations};
    row.op = op;
    row.threads = threads;
    row.regions = regions;
    row.latency = statistics(samples.ns);
    report_(row);
    return {};
  }

 private:
  const Plan& plan_;
  const Report& report_;
};

/// What one thread gets and gives back, in this order, over and over: regions at random out of `set` that are `stride`
/// apart.  Chosen before the time is taken: a random number and a division cost as much as a third of a hit.
class Order {
 public:
  Order(std::uint64_t seed, std::uint64_t set, std::uint64_t stride) : regions_(kLength) {
    std::minstd_rand random{static_cast<unsigned>(seed + 1)};
    for (const void*& each : regions_) each = region(random() % set * stride);
  }
  [[nodiscard]] bool touch(rcache::Cache& cache, std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!cache.get(regions_[i % kLength], kPage, 1)) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint64_t kLength = std::uint64_t{1} << 17;
  std::vector<const void*> regions_;
};

Result<void> fill(rcache::Cache& cache, std::uint64_t regions) {
  for (int twice = 0; twice < 2; ++twice) {  // the second time every region has left its hint
    for (std::uint64_t i = 0; i < regions; ++i) {
      if (const auto lease = cache.get(region(i), kPage, 1); !lease) return lease.error();
    }
  }
  return {};
}

constexpr std::uint64_t kThreads[] = {1, 2, 4, 8};

/// Everything with `regions` registrations cached.
Result<void> measure(const Measurement& report, std::uint64_t regions) {
  constexpr std::uint64_t kHot = 100;  // buffers that a program uses again and again
  FreeDevice device;
  rcache::Cache cache{device};
  OPAL_TRY(fill(cache, regions));
  const std::uint64_t set = std::min(regions, kHot);
  for (const std::uint64_t threads : kThreads) {
    std::vector<Order> hot;
    std::vector<Order> anywhere;
    for (std::uint64_t t = 0; t < threads; ++t) {
      hot.emplace_back(t, set, regions / set);
      anywhere.emplace_back(t, regions, 1);
    }
    OPAL_TRY(report("hit", threads, regions, 400'000,
                    [&](std::uint64_t t, std::uint64_t count) { return hot[t].touch(cache, count); }));
    if (regions <= kHot) continue;
    OPAL_TRY(report("hit anywhere", threads, regions, 100'000,
                    [&](std::uint64_t t, std::uint64_t count) { return anywhere[t].touch(cache, count); }));
  }
  for (const std::uint64_t threads : kThreads) {
    OPAL_TRY(report("invalidate and register", threads, regions, 5'000, [&](std::uint64_t t, std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const void* const mine = region((t + i * threads) % std::max(regions, threads));  // nobody else's now
        cache.invalidate(mine, kPage);
        if (!cache.get(mine, kPage, 1)) return false;
      }
      return true;
    }));
  }
  std::atomic<std::uint64_t> next{regions};  // threads take regions never seen before, a batch at a time
  const auto touch_new = [&next](rcache::Cache& some, std::uint64_t count) {
    for (std::uint64_t i = next.fetch_add(count), end = i + count; i < end; ++i) {
      if (!some.get(region(i), kPage, 1)) return false;
    }
    return true;
  };
  for (const std::uint64_t threads : kThreads) {
    OPAL_TRY(report("miss", threads, regions, 5'000,
                    [&](std::uint64_t, std::uint64_t count) { return touch_new(cache, count); }));
  }
  rcache::Config limited;
  limited.count_limit = std::max<std::uint64_t>(regions, std::size(kThreads) * 2);
  rcache::Cache full{device, limited};
  OPAL_TRY(fill(full, limited.count_limit));
  for (const std::uint64_t threads : kThreads) {
    OPAL_TRY(report("evict", threads, regions, 5'000,
                    [&](std::uint64_t, std::uint64_t count) { return touch_new(full, count); }));
  }
  return {};
}

}  // namespace

Result<void> registration_cache(const Plan& plan, const Report& report) {
  const Measurement measurement{plan, report};
  for (const std::uint64_t regions : {1ULL, 100ULL, 10'000ULL, 1'000'000ULL}) {
    OPAL_TRY(measure(measurement, regions));
  }
  OPAL_TRY_ASSIGN(const Mapping memory, Mapping::anonymous(16 * kPage));
  if (::mlock(memory.data(), kPage) != 0) return {};  // RLIMIT_MEMLOCK
  return measurement("uncached: mlock and munlock", 1, 1, 20'000, [&](std::uint64_t, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (::mlock(memory.data(), kPage) != 0 || ::munlock(memory.data(), kPage) != 0) return false;
    }
    return true;
  });
}

}  // namespace opal::perf
