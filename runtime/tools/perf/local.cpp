// SPDX-License-Identifier: Apache-2.0
// Measurements in one process: the allocators, the memory a Context and its peers cost.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "opal/allocator/basic.hpp"
#include "opal/allocator/bucket.hpp"
#include "opal/mpool/pool.hpp"
#include "runtime/tools/perf/sampling.hpp"
#include "runtime/tools/perf/tests.hpp"

namespace opal::perf {
namespace {

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
