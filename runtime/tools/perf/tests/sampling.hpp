// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/sampling.hpp — repeats an operation for a time budget and measures the time of each batch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "opal/core/clock.hpp"

namespace opal::perf {

/// Time for one point, in nanoseconds.  On a busy machine operations may take a thousand times longer than in the
/// warm-up, so a limit on the number of operations does not limit the time.
inline constexpr std::uint64_t kBudgetNs = 200'000'000;

/// The times of batches of one operation.
struct Samples {
  std::vector<double> ns;  ///< per operation, of each batch
  std::uint64_t operations = 0;
  double total_ns = 0;
};

/// Measures `operation(count)`, which does `count` operations and returns false to stop.  After a warm-up it runs
/// `iterations` operations; if that is 0, as many as take about kBudgetNs, and it stops soon after 2 * kBudgetNs.
/// `stretch_ns`: estimated time between two reads of the clock.  Make it long if each call of `operation` waits at its
/// end for several operations in flight.
template <class Operation>
Samples sample(std::uint64_t iterations, Operation operation, std::uint64_t stretch_ns = 20'000) {
  constexpr std::uint64_t kBatches = 50;
  const bool timed = iterations == 0;
  Samples samples;
  const std::uint64_t warm_start = now_ns();
  std::uint64_t warm = 0;
  do {
    if (!operation(1)) return samples;
    ++warm;
  } while (warm < 10'000 && now_ns() - warm_start < kBudgetNs / 10);
  const std::uint64_t begin = now_ns();
  const std::uint64_t each = std::max<std::uint64_t>(1, (begin - warm_start) / warm);
  if (timed) iterations = std::clamp<std::uint64_t>(kBudgetNs / each, 5, 2'000'000);
  const std::uint64_t batch = std::max<std::uint64_t>(1, iterations / kBatches);
  const std::uint64_t stretch = timed ? std::max<std::uint64_t>(1, stretch_ns / each) : batch;
  bool over = false;
  while (!over && samples.operations < iterations) {
    const std::uint64_t wanted = std::min(batch, iterations - samples.operations);
    const std::uint64_t start = now_ns();
    std::uint64_t now = start;
    std::uint64_t count = 0;
    while (!over && count < wanted) {
      const std::uint64_t some = std::min(stretch, wanted - count);
      if (!operation(some)) return samples;
      count += some;
      now = now_ns();
      over = timed && now - begin > 2 * kBudgetNs;
    }
    const auto elapsed = static_cast<double>(now - start);
    samples.ns.push_back(elapsed / static_cast<double>(count));
    samples.total_ns += elapsed;
    samples.operations += count;
  }
  return samples;
}

}  // namespace opal::perf
