// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/report/row.hpp"

#include <algorithm>
#include <numeric>

namespace opal::perf {

Latency statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double fraction) {
    return samples[static_cast<std::size_t>(fraction * static_cast<double>(samples.size() - 1))];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {samples.front(), at(0.5), at(0.99), sum / static_cast<double>(samples.size())};
}

}  // namespace opal::perf
