// SPDX-License-Identifier: Apache-2.0
// runtime/variables.hpp — environment variables that opalrun and opald set for the processes they start.
// A name that starts with OPAL_INTERNAL_ is never a configuration variable.
#pragma once

namespace runtime {

/// The id of the job.  Its ranks have the variable, and so have the processes that they start.
inline constexpr char kJobIdVariable[] = "OPAL_INTERNAL_JOB_ID";

/// The session of the launcher or daemon that started the process.  When that launcher or daemon is dead, the next one
/// on the host kills the process (sweep_stale_sessions()).
inline constexpr char kSessionVariable[] = "OPAL_INTERNAL_SESSION";

}  // namespace runtime
