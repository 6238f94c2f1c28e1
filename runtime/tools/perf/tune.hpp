// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tune.hpp — measures the ways of the shared-memory transport one by one, each forced by variables,
// and stores the switch points for every later process on such a machine.
#pragma once
#include <string>
#include <vector>

#include "runtime/tools/perf/report/switch_points.hpp"
#include "runtime/tools/perf/tests/pairing.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {

/// Both processes call it; rank 0 gets the times and reports them.  Ways that this machine does not have (single
/// copy that is not permitted) are left out, with a note.
/// Errors: those of Conversation::open, the endpoint's.
Result<Measurements> measure_paths(Pairing& pairing, const Plan& plan, const Report& report);

/// The file that processes on this kind of machine read (opal/core/system/machine.hpp).  Errors: unreachable (no home).
Result<std::string> tuning_file();

/// Replaces `path` by these points; folders are made as needed.  Errors: os.
Result<void> store(const std::vector<SwitchPoint>& points, const std::string& path);

}  // namespace opal::perf
