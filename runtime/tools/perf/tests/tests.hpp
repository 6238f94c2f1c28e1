// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/tests.hpp — the measurements.  A PairTest runs on rank 0 while rank 1 responds; the others
// say where they run.  Each passes its results to `report`.
#pragma once
#include <functional>
#include <vector>

#include "runtime/tools/perf/report/report.hpp"
#include "runtime/tools/perf/tests/conversation.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"

namespace opal::perf {

using Report = std::function<void(const Row&)>;

struct Plan {
  std::vector<std::uint64_t> sizes;  ///< bytes; a test leaves out sizes that it does not support
  std::uint64_t iterations = 0;      ///< operations per point; 0: as many as take about kBudgetNs
  std::optional<double> floor_ns;    ///< median of cache_line_floor()
};

// --- The limits of the machine, measured in the same run and processes for comparison.

/// Moves one cache line back and forth between the two processes of a pair; returns the one-way times at rank 0,
/// nothing at rank 1.  Both call it once; it takes about a second.  `page`: a zeroed page that both map; empty: returns
/// nothing.
std::optional<Latency> cache_line_floor(int rank, MutableBytes page);
/// Bytes per second of memcpy of `size` bytes between two private buffers that are in the cache if they fit.
double memcpy_Bps(std::uint64_t size);

// --- OPAL

/// A test between two processes over one transport.  `test`: the name of the test, for Row::test.  Errors: those of the
/// endpoint.
using PairTest = Result<void>(Conversation& with, const Plan& plan, const Report& report, const std::string& test);
PairTest ping_pong;
PairTest streams;              ///< am_rate, am_bw
PairTest one_sided_latency;    ///< put_lat, get_lat
PairTest one_sided_bandwidth;  ///< put_bw, get_bw
PairTest atomic_latency;
/// A row for a PairTest, without results.
inline Row row_for(const std::string& test, Conversation& with, const Plan& plan, std::uint64_t size) {
  Row row{.test = test, .btl = std::string{with.peer().attributes().transport}, .size = size};
  row.floor_ns = plan.floor_ns;
  return row;
}
/// Measures `operation`, which returns its error, and reports `row` with its time divided by `ways` (2: a round trip is
/// reported as one way).
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

/// One-way times between two daemons of the out-of-band channel over one transport; both processes call it.  Errors:
/// not_supported (the channel does not move to `transport`), those of oob::Daemon.
Result<void> oob_latency(Pairing& pairing, const std::string& transport, const Plan& plan, const Report& report);

// In one process.
Result<void> registration_cache(const Plan& plan, const Report& report);
Result<void> allocators(const Plan& plan, const Report& report);

}  // namespace opal::perf
