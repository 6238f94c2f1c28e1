// SPDX-License-Identifier: Apache-2.0
// runtime/variables.hpp — environment variables that opalrun and opald set for the processes they start.
// A name that starts with OPAL_INTERNAL_ is never a configuration variable.
#pragma once

namespace runtime {

/// The name of the job.  Every process of the job has it, and no other process.
inline constexpr char kJobIdVariable[] = "OPAL_INTERNAL_JOB_ID";

/// The session of the launcher or daemon that started the process.  When that is dead, sweep_stale_sessions() of a
/// later launcher or daemon kills the process.
inline constexpr char kSessionVariable[] = "OPAL_INTERNAL_SESSION";

}  // namespace runtime
