// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/tests.hpp — the measurements.  Each runs on rank 0 while rank 1 responds; figures go to
// `report`.
#pragma once
#include <functional>
#include <vector>

#include "runtime/tools/perf/report/row.hpp"
#include "runtime/tools/perf/tests/conversation.hpp"

namespace opal::perf {

using Report = std::function<void(const Row&)>;

struct Plan {
  std::vector<std::uint64_t> sizes;  ///< bytes; those a test cannot do are left out
  std::uint64_t iterations = 0;      ///< 0: about a fifth of a second per point
  std::optional<double> floor_ns;    ///< measured before
};

/// Between two processes over one transport, under the name that rows have.  Errors are the endpoint's.
using PairTest = Result<void>(Conversation& with, const Plan& plan, const Report& report, const std::string& test);
PairTest ping_pong;
PairTest streams;              ///< am_rate, am_bw
PairTest one_sided_latency;    ///< put_lat, get_lat
PairTest one_sided_bandwidth;  ///< put_bw, get_bw
PairTest atomic_latency;
/// A row of one of them.
inline Row row_for(const std::string& test, Conversation& with, const Plan& plan, std::uint64_t size,
                   std::uint64_t iterations) {
  Row row{.test = test, .btl = std::string{with.peer().attributes().transport}, .size = size, .iterations = iterations};
  row.floor_ns = plan.floor_ns;
  return row;
}
/// Between rank 0 and the launcher, over each of `transports`.  Errors: not_supported without opalrun.
Result<void> oob_lat(const std::vector<std::string>& transports, const Plan& plan, const Report& report);

// In one process.
Result<void> registration_cache(const Plan& plan, const Report& report);
Result<void> allocators(const Plan& plan, const Report& report);
/// Messages per second with several threads in a Context; plan.iterations: milliseconds of each of five stretches.
Result<void> thread_rates(const Plan& plan, const Report& report);

}  // namespace opal::perf
