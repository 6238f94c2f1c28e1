// SPDX-License-Identifier: Apache-2.0
// runtime/variables.hpp — environment variables by which opalrun and the processes it starts know each other.
// Names that start with OPAL_INTERNAL_ are never taken for configuration.
#pragma once

namespace runtime {

/// The job's name: every process of a job has it, and no other process.
inline constexpr char kJobIdVariable[] = "OPAL_INTERNAL_JOB_ID";

/// The session of the launcher or daemon that started the process: it is killed when that is dead and swept up.
inline constexpr char kSessionVariable[] = "OPAL_INTERNAL_SESSION";

/// The address of the launcher's or daemon's active-message Context, in hexadecimal.
inline constexpr char kDaemonVariable[] = "OPAL_INTERNAL_DAEMON";

}  // namespace runtime
