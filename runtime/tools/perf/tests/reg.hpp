// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/reg.hpp — what opal-perf reg measures of a registration cache, for OPAL's and for other
// caches (tests/bench/registration_caches.cpp).  A Cache has open(limit), touch(address, size) and invalidate(address,
// size).
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "opal/core/system/mapping.hpp"
#include "opal/rcache/cache.hpp"
#include "runtime/tools/perf/tests/sample_concurrently.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {

inline constexpr std::size_t kCachePage = 4096;
inline constexpr std::uint64_t kCacheRounds = 7;

class FreeDevice final : public rcache::Device {
 public:
  Result<void> register_memory(rcache::Registration&) noexcept override { return {}; }
  void deregister_memory(rcache::Registration&) noexcept override {}
};

/// The cache measured.
class OpalCache {
 public:
  static Result<std::unique_ptr<OpalCache>> open(std::uint64_t limit) {
    rcache::Config config;
    config.count_limit = limit;
    return std::unique_ptr<OpalCache>{new OpalCache{config}};
  }
  Result<void> touch(std::byte* address, std::size_t size) noexcept {
    OPAL_TRY(cache_.get(address, size, 1));
    return {};
  }
  Result<void> invalidate(std::byte* address, std::size_t size) noexcept {
    (void)cache_.invalidate(address, size);
    return {};
  }

 private:
  explicit OpalCache(const rcache::Config& config) : cache_(device_, config) {}
  FreeDevice device_;
  rcache::Cache cache_;
};

/// Every other page of a mapping that is never touched: neighbours would be one registration to some caches.
struct Regions {
  static constexpr std::uint64_t kMost = 2'000'000;

  [[nodiscard]] std::byte* operator[](std::uint64_t index) const {
    return memory.data() + 2 * (index % kMost) * kCachePage;
  }

  Mapping memory;
};

class Measurement {
 public:
  Measurement(const Plan& plan, const Report& report) : plan_(plan), report_(report) {}

  /// `operation(thread, count)`, measured and reported.
  template <class Operation>
  Result<void> operator()(const std::string& op, std::uint64_t threads, std::uint64_t regions, std::uint64_t count,
                          Operation operation) const {
    const std::uint64_t share = std::max<std::uint64_t>(1, plan_.iterations / kCacheRounds);
    OPAL_TRY_ASSIGN(const Samples samples,
                    sample_concurrently(threads, kCacheRounds, plan_.iterations != 0 ? share : count, operation));
    Row row{.test = "reg", .btl = {}, .size = kCachePage, .iterations = samples.operations};
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

/// The sequence of regions that one thread gets and releases: random ones out of `set` regions that are `stride` apart.
/// It is made before the measurement, since a random number and a division cost a third of a hit.
class Order {
 public:
  Order(const Regions& all, std::uint64_t seed, std::uint64_t set, std::uint64_t stride, std::size_t length)
      : regions_(length) {
    std::minstd_rand random{static_cast<unsigned>(seed + 1)};
    for (std::byte*& each : regions_) each = all[random() % set * stride];
  }
  template <class Cache>
  Result<void> touch(Cache& cache, std::uint64_t count) const {
    for (std::uint64_t left = count; left > 0;) {
      const auto end = regions_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(left, regions_.size()));
      for (auto each = regions_.begin(); each != end; ++each) {
        OPAL_TRY(cache.touch(*each, kCachePage));
      }
      left -= static_cast<std::uint64_t>(end - regions_.begin());
    }
    return {};
  }

 private:
  std::vector<std::byte*> regions_;
};

/// A cache filled with `regions` regions, by a thread that has ended: only the measured threads use the cache then.
template <class Cache>
Result<std::unique_ptr<Cache>> filled(const Regions& all, std::uint64_t regions, std::uint64_t limit) {
  OPAL_TRY_ASSIGN(auto cache, Cache::open(limit));
  Result<void> done;
  std::thread{[&] {
    for (int twice = 0; twice < 2; ++twice) {  // the second time every region has left its hint
      for (std::uint64_t i = 0; i < regions && done; ++i) done = cache->touch(all[i], kCachePage);
    }
  }}.join();
  OPAL_TRY(done);
  return cache;
}

/// The numbers of threads and of registrations that are measured.
inline constexpr std::uint64_t kCacheThreads[] = {1, 2, 4, 8};
inline constexpr std::uint64_t kCacheRegions[] = {1, 100, 10'000, 1'000'000};

template <class Cache>
Result<void> measure_hits(const Measurement& report, const std::string& suffix, const Regions& all, Cache& cache,
                          std::uint64_t regions, std::uint64_t threads) {
  constexpr std::uint64_t kHot = 100;  // buffers that a program uses again and again
  const std::uint64_t set = std::min(regions, kHot);
  std::vector<Order> hot;
  std::vector<Order> anywhere;
  for (std::uint64_t t = 0; t < threads; ++t) {
    hot.emplace_back(all, t, set, regions / set, 1'000);  // the list itself stays in the first cache
    anywhere.emplace_back(all, t, regions, 1, std::size_t{1} << 17);
  }
  OPAL_TRY(report("hit" + suffix, threads, regions, 400'000,
                  [&](std::uint64_t t, std::uint64_t count) { return hot[t].touch(cache, count); }));
  if (regions <= kHot) return {};
  return report("hit anywhere" + suffix, threads, regions, 100'000,
                [&](std::uint64_t t, std::uint64_t count) { return anywhere[t].touch(cache, count); });
}

/// All measurements of one cache with `regions` registrations.
template <class Cache>
Result<void> measure_cache(const Measurement& report, const std::string& suffix, const Regions& all,
                           std::uint64_t regions, std::uint64_t threads) {
  OPAL_TRY_ASSIGN(const auto cache, filled<Cache>(all, regions, 0));
  OPAL_TRY(measure_hits(report, suffix, all, *cache, regions, threads));
  // Regions of its own for every thread: a cache may refuse what is invalidated again and again while it is registered.
  const std::uint64_t share = std::max<std::uint64_t>(1, regions / threads);
  OPAL_TRY(report("invalidate and register" + suffix, threads, regions, 5'000,
                  [&](std::uint64_t t, std::uint64_t count) -> Result<void> {
                    for (std::uint64_t i = 0; i < count; ++i) {
                      std::byte* const mine = all[t * share + i % share];
                      OPAL_TRY(cache->invalidate(mine, kCachePage));
                      OPAL_TRY(cache->touch(mine, kCachePage));
                    }
                    return {};
                  }));
  std::atomic<std::uint64_t> next{regions};  // threads take regions never seen before, a batch at a time
  const auto touch_new = [&](Cache& some, std::uint64_t count) -> Result<void> {
    for (std::uint64_t i = next.fetch_add(count), end = i + count; i < end; ++i)
      OPAL_TRY(some.touch(all[i], kCachePage));
    return {};
  };
  OPAL_TRY(report("miss" + suffix, threads, regions, 5'000,
                  [&](std::uint64_t, std::uint64_t count) { return touch_new(*cache, count); }));
  const std::uint64_t limit = std::max<std::uint64_t>(regions, std::size(kCacheThreads) * 2);
  OPAL_TRY_ASSIGN(const auto full, filled<Cache>(all, limit, limit));
  return report("evict" + suffix, threads, regions, 5'000,
                [&](std::uint64_t, std::uint64_t count) { return touch_new(*full, count); });
}

}  // namespace opal::perf
