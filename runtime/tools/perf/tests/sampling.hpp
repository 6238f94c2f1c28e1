// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/sampling.hpp — how many times to do something, and the time of each batch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "opal/core/clock.hpp"

namespace opal::perf {

/// How long one point is measured.  On a machine with other work operations may take a thousand times longer than those
/// of the warm-up, so a number of operations is no bound of the time.
inline constexpr std::uint64_t kBudgetNs = 200'000'000;

/// Batches of one operation: so large that reading the clock does not count, so many that a median means something.
struct Samples {
  std::vector<double> ns;  ///< per operation, of each batch
  std::uint64_t operations = 0;
  double total_ns = 0;
};

/// Runs `operation(count)`, which does `count` operations and returns false to stop, after a warm-up: `iterations`
/// times in all, or if that is 0 for about kBudgetNs and never much longer than twice as long. `stretch_ns`: estimated
/// time between two looks at the clock; long where `operation` keeps several in flight and waits for all of them at its
/// end.
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
