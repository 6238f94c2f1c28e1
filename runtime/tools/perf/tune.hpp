// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tune.hpp — measures each protocol of the shared-memory transport, selected by variables, and
// stores the switch points for later processes on this kind of machine.
#pragma once
#include <string>
#include <vector>

#include "runtime/tools/perf/report/switch_points.hpp"
#include "runtime/tools/perf/tests/pairing.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {

/// Both processes call it; rank 0 gets the times and passes them to `report`.
/// Errors: those of Conversation::open and of the endpoint.
Result<Measurements> measure_paths(Pairing& pairing, const Plan& plan, const Report& report);

/// The path of the file that processes on this kind of machine read (opal/core/system/machine.hpp).
/// Errors: unreachable (neither HOME nor XDG_CONFIG_HOME is set).
Result<std::string> tuning_file();

/// Writes `points` to the file `path`, which is replaced atomically; makes its directory.  Errors: os.
Result<void> store(const std::vector<SwitchPoint>& points, const std::string& path);

}  // namespace opal::perf
