// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/sample_concurrently.hpp — measures one operation in several threads at the same time.
#pragma once
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/result.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"

namespace opal::perf {

/// CPU time of the calling thread, in nanoseconds.
inline std::uint64_t thread_cpu_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// `threads` threads each call operation(thread, count) `rounds` times, all at the same time, after a warm-up.  A
/// sample is the CPU time of one thread in one round, divided by `count`.  Threads that do not disturb each other need
/// the time of a single thread, also with more threads than cores.  Cache misses by other threads, spin locks and
/// system calls of sleeping threads add to it.  The first error of an operation ends the measurement and is returned.
template <class Operation>
Result<Samples> sample_concurrently(std::uint64_t threads, std::uint64_t rounds, std::uint64_t count,
                                    Operation operation) {
  Samples samples;
  samples.ns.resize(threads * rounds);
  std::atomic<bool> failed{false};
  Error error{};  // of the thread that set `failed`
  std::atomic<std::uint64_t> ready{0};
  std::atomic<bool> go{false};
  const auto run = [&](std::uint64_t thread, std::uint64_t operations) {
    const Result<void> done = operation(thread, operations);
    if (!done && !failed.exchange(true)) error = done.error();
  };
  std::vector<std::thread> workers;
  for (std::uint64_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      run(t, std::min<std::uint64_t>(count, 1'000));
      ready.fetch_add(1);
      go.wait(false);
      for (std::uint64_t round = 0; round < rounds && !failed; ++round) {
        const std::uint64_t start = thread_cpu_ns();
        run(t, count);
        samples.ns[t * rounds + round] = static_cast<double>(thread_cpu_ns() - start) / static_cast<double>(count);
      }
    });
  }
  while (ready != threads) std::this_thread::yield();
  const std::uint64_t start = now_ns();
  go = true;
  go.notify_all();
  for (std::thread& worker : workers) worker.join();
  if (failed) return error;
  samples.total_ns = static_cast<double>(now_ns() - start);
  samples.operations = threads * rounds * count;
  return samples;
}

}  // namespace opal::perf
