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

// Between two processes over one transport.  Errors are the endpoint's.
Result<void> am_lat(Conversation& with, const Plan& plan, const Report& report);
Result<void> am_rate(Conversation& with, const Plan& plan, const Report& report);
Result<void> am_bw(Conversation& with, const Plan& plan, const Report& report);
Result<void> put_lat(Conversation& with, const Plan& plan, const Report& report);
Result<void> put_bw(Conversation& with, const Plan& plan, const Report& report);
Result<void> get_lat(Conversation& with, const Plan& plan, const Report& report);
Result<void> get_bw(Conversation& with, const Plan& plan, const Report& report);
Result<void> atomic_lat(Conversation& with, const Plan& plan, const Report& report);

/// Between rank 0 and the launcher, over each of `transports`.  Errors: not_supported without opalrun.
Result<void> oob_lat(const std::vector<std::string>& transports, const Plan& plan, const Report& report);

// In one process.
Result<void> registration_cache(const Plan& plan, const Report& report);
Result<void> allocators(const Plan& plan, const Report& report);
/// Messages per second with several threads in a Context; plan.iterations: milliseconds of each of five stretches.
Result<void> thread_rates(const Plan& plan, const Report& report);
/// Bytes that a Context costs, and that each further idle peer costs, by transport.
Result<void> memory_per_peer(const std::vector<std::string>& transports, const Report& report);

}  // namespace opal::perf
