// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/tests.hpp — the measurements.  Each runs on rank 0 while rank 1 responds; figures go to
// `report`.
#pragma once
#include <functional>
#include <vector>

#include "runtime/tools/perf/report/report.hpp"
#include "runtime/tools/perf/tests/conversation.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"

namespace opal::perf {

using Report = std::function<void(const Row&)>;

struct Plan {
  std::vector<std::uint64_t> sizes;  ///< bytes; those a test cannot do are left out
  std::uint64_t iterations = 0;      ///< 0: about a fifth of a second per point
  std::optional<double> floor_ns;    ///< measured before
};

// --- What this machine can do at all: figures of ours are told beside these, of the same run and processes.

/// Bounces one cache line between the two processes of a pair: one-way times.  Both call it, once, and are through in a
/// few seconds at most; rank 1 gets nothing.  `page` is mapped by both, and zeroed; where it is empty, rank 0 gets
/// nothing either.
std::optional<Latency> cache_line_floor(int rank, MutableBytes page);
/// Bytes per second of memcpy of `size` bytes between two private buffers that were just used (warm).
double memcpy_Bps(std::uint64_t size);

// --- Ours

/// Between two processes over one transport, under the name that rows have.  Errors are the endpoint's.
using PairTest = Result<void>(Conversation& with, const Plan& plan, const Report& report, const std::string& test);
PairTest ping_pong;
PairTest streams;              ///< am_rate, am_bw
PairTest one_sided_latency;    ///< put_lat, get_lat
PairTest one_sided_bandwidth;  ///< put_bw, get_bw
PairTest atomic_latency;
/// A row of one of them.
inline Row row_for(const std::string& test, Conversation& with, const Plan& plan, std::uint64_t size) {
  Row row{.test = test, .btl = std::string{with.peer().attributes().transport}, .size = size};
  row.floor_ns = plan.floor_ns;
  return row;
}
/// Does `operation`, which returns its error, again and again, and reports the time of one, divided by `ways`, in
/// `row`.
template <class Operation>
Result<void> report_latency(Row row, const Plan& plan, const Report& report, double ways, Operation operation) {
  Error error{};
  Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count && error.code == Errc{}; ++i) error = operation();
    return error.code == Errc{};
  });
  if (error.code != Errc{}) return error;
  for (double& ns : samples.ns) ns /= ways;
  row.iterations = samples.operations;
  row.latency = statistics(samples.ns);
  report(row);
  return {};
}
/// Between rank 0 and the launcher, over each of `transports`.  Errors: not_supported without opalrun.
Result<void> oob_lat(const std::vector<std::string>& transports, const Plan& plan, const Report& report);

// In one process.
Result<void> registration_cache(const Plan& plan, const Report& report);
Result<void> allocators(const Plan& plan, const Report& report);
/// Messages per second with several threads in a Context; plan.iterations: milliseconds of each of five stretches.
Result<void> thread_rates(const Plan& plan, const Report& report);

}  // namespace opal::perf
