// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/sampling.hpp — how many times to do something, and the time of each batch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "opal/core/clock.hpp"

namespace opal::perf {

/// Batches of one operation: so large that reading the clock does not count, so many that a median means something.
struct Samples {
  std::vector<double> ns;  ///< per operation, of each batch
  std::uint64_t operations = 0;
  double total_ns = 0;
};

/// Runs `operation(count)`, which does `count` operations and returns false to stop, `iterations` times in all (0: for
/// about a fifth of a second), after a warm-up.
template <class Operation>
Samples sample(std::uint64_t iterations, Operation operation) {
  constexpr std::uint64_t kBudgetNs = 200'000'000;
  constexpr std::uint64_t kBatches = 50;
  Samples samples;
  const std::uint64_t warm_start = now_ns();
  std::uint64_t warm = 0;
  do {
    if (!operation(1)) return samples;
    ++warm;
  } while (warm < 10'000 && now_ns() - warm_start < kBudgetNs / 10);
  if (iterations == 0) {
    const std::uint64_t each = std::max<std::uint64_t>(1, (now_ns() - warm_start) / warm);
    iterations = std::clamp<std::uint64_t>(kBudgetNs / each, 5, 2'000'000);
  }
  const std::uint64_t batch = std::max<std::uint64_t>(1, iterations / kBatches);
  for (std::uint64_t done = 0; done < iterations;) {
    const std::uint64_t count = std::min(batch, iterations - done);
    const std::uint64_t start = now_ns();
    if (!operation(count)) return samples;
    const auto elapsed = static_cast<double>(now_ns() - start);
    samples.ns.push_back(elapsed / static_cast<double>(count));
    samples.total_ns += elapsed;
    samples.operations += count;
    done += count;
  }
  return samples;
}

}  // namespace opal::perf
