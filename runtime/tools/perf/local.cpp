// SPDX-License-Identifier: Apache-2.0
// Measurements in one process: the registration cache, the allocators, the memory a Context and its peers cost.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "opal/allocator/basic.hpp"
#include "opal/allocator/bucket.hpp"
#include "opal/core/mapping.hpp"
#include "opal/mpool/pool.hpp"
#include "opal/rcache/cache.hpp"
#include "runtime/tools/perf/sampling.hpp"
#include "runtime/tools/perf/tests.hpp"

namespace opal::perf {
namespace {

constexpr std::size_t kPage = 4096;

/// A device whose registrations cost nothing, so that only the cache is measured.
class FreeDevice final : public rcache::Device {
 public:
  Result<void> register_memory(rcache::Registration&) noexcept override { return {}; }
  void deregister_memory(rcache::Registration&) noexcept override {}
};

Row reg_row(const char* op, const Samples& samples, std::uint64_t threads, std::uint64_t regions) {
  Row row{.test = "reg", .btl = {}, .size = kPage, .iterations = samples.operations};
  row.op = op;
  row.threads = threads;
  row.regions = regions;
  row.latency = statistics(samples.ns);
  return row;
}

/// Fills `cache` with `regions` idle registrations of one page each.
Result<void> fill(rcache::Cache& cache, const std::byte* base, std::uint64_t regions) {
  for (std::uint64_t i = 0; i < regions; ++i) {
    OPAL_TRY_ASSIGN(const rcache::Lease lease, cache.get(base + i * kPage, kPage, 1));
  }
  return {};
}

Samples hits(rcache::Cache& cache, const std::byte* base, std::uint64_t regions, std::uint64_t iterations,
             unsigned seed) {
  std::minstd_rand random{seed};
  return sample(iterations, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!cache.get(base + random() % regions * kPage, kPage, 1)) return false;
    }
    return true;
  });
}

/// Resident bytes of this process.
std::uint64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<void> measure_allocator(const char* name, allocator::Allocator& allocator, const Plan& plan,
                               const Report& report) {
  for (const std::uint64_t size : plan.sizes) {
    bool failed = false;
    const Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count && !failed; ++i) {
        auto block = allocator.allocate(size);
        failed = !block || !allocator.deallocate(*block);
      }
      return !failed;
    });
    if (failed) return Error{Errc::no_memory, 0, "opal-perf alloc: the allocator refused", size};
    Row row{.test = "alloc", .btl = {}, .size = size, .iterations = samples.operations};
    row.op = name;
    row.latency = statistics(samples.ns);
    report(row);
  }
  return {};
}

}  // namespace

Result<void> registration_cache(const Plan& plan, const Report& report) {
  FreeDevice device;
  for (const std::uint64_t regions : {1ULL, 100ULL, 10'000ULL, 1'000'000ULL}) {
    OPAL_TRY_ASSIGN(const Mapping memory, Mapping::anonymous((regions + 1) * kPage, false));
    rcache::Cache cache{device};
    OPAL_TRY(fill(cache, memory.data(), regions));
    report(reg_row("hit", hits(cache, memory.data(), regions, plan.iterations, 1), 1, regions));
    if (regions == 100) {
      for (const std::uint64_t threads : {2ULL, 4ULL, 8ULL}) {
        std::vector<Samples> results(threads);
        std::vector<std::thread> workers;
        for (std::uint64_t t = 0; t < threads; ++t) {
          workers.emplace_back([&, t] {
            results[t] = hits(cache, memory.data(), regions, plan.iterations, static_cast<unsigned>(t) + 1);
          });
        }
        for (std::thread& worker : workers) worker.join();
        Samples all;
        for (const Samples& result : results) {
          all.ns.insert(all.ns.end(), result.ns.begin(), result.ns.end());
          all.operations += result.operations;
        }
        report(reg_row("hit", all, threads, regions));
      }
    }
  }
  constexpr std::uint64_t kRegions = 10'000;
  OPAL_TRY_ASSIGN(const Mapping memory, Mapping::anonymous(kRegions * kPage * 2, false));
  {
    rcache::Cache cache{device};
    std::uint64_t next = 0;
    const Samples samples = sample(plan.iterations != 0 ? plan.iterations : kRegions, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i, ++next)
        if (!cache.get(memory.data() + next % (2 * kRegions) * kPage, kPage, 1)) return false;
      return true;
    });
    report(reg_row("miss", samples, 1, kRegions));
  }
  {
    rcache::Config config;
    config.count_limit = 1000;
    rcache::Cache cache{device, config};
    OPAL_TRY(fill(cache, memory.data(), config.count_limit));
    std::uint64_t next = config.count_limit;
    const Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i, ++next)
        if (!cache.get(memory.data() + next % kRegions * kPage, kPage, 1)) return false;
      return true;
    });
    report(reg_row("evict", samples, 1, config.count_limit));
  }
  {
    rcache::Cache cache{device};
    const Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        if (!cache.get(memory.data(), kPage, 1)) return false;
        cache.invalidate(memory.data(), kPage);
      }
      return true;
    });
    report(reg_row("invalidate", samples, 1, 1));
  }
  return {};
}

Result<void> allocators(const Plan& plan, const Report& report) {
  OPAL_TRY_ASSIGN(const auto pool, mpool::open("heap"));
  OPAL_TRY_ASSIGN(const auto basic, allocator::Basic::over(*pool));
  OPAL_TRY_ASSIGN(const auto bucket, allocator::Bucket::over(*pool));
  OPAL_TRY(measure_allocator("basic", *basic, plan, report));
  return measure_allocator("bucket", *bucket, plan, report);
}

Result<void> memory_per_peer(const std::vector<std::string>& transports, const Report& report) {
  constexpr std::uint64_t kPeers = 16;
  for (const std::string& transport : transports) {
    config::Store store = config::Store::from_environment();
    store.set("am_transports", transport);
    const auto open = [&]() -> Result<std::unique_ptr<am::Context>> { return am::Context::open(store); };
    OPAL_TRY_ASSIGN(auto warm, open());  // what the first Context of a process pays once
    warm.reset();
    const std::uint64_t before = resident_bytes();
    OPAL_TRY_ASSIGN(auto hub, open());
    Row context{.test = "mem", .btl = transport};
    context.size = resident_bytes() - std::min(before, resident_bytes());
    context.op = "resident bytes of one Context";
    context.iterations = 1;
    report(context);
    if (transport == "self") continue;
    std::vector<std::unique_ptr<am::Context>> peers;
    for (std::uint64_t i = 0; i < kPeers; ++i) {
      OPAL_TRY_ASSIGN(auto peer, open());
      peers.push_back(std::move(peer));
    }
    const std::uint64_t unconnected = resident_bytes();
    for (const auto& peer : peers) {
      OPAL_TRY(hub->connect(peer->address()));
    }
    const Deadline deadline = Deadline::after(std::chrono::milliseconds{200});
    while (!deadline.expired()) {
      hub->progress();
      for (const auto& peer : peers) peer->progress();
    }
    Row idle{.test = "mem", .btl = transport};
    idle.size = (resident_bytes() - std::min(unconnected, resident_bytes())) / kPeers;
    idle.op = "resident bytes per connected idle peer, both ends";
    idle.iterations = kPeers;
    report(idle);
  }
  return {};
}

}  // namespace opal::perf
