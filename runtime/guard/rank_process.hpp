// SPDX-License-Identifier: Apache-2.0
// runtime/guard/rank_process.hpp — the start of one rank: its own process group, binding, directory, stdio.
// Threads: only the process guard calls it, which has one thread.
#pragma once
#include <sys/types.h>

#include <bitset>

#include "runtime/guard/protocol.hpp"

namespace runtime::guard {

using SignalSet = std::bitset<65>;  ///< index = signal number

/// Descriptors for stdin, stdout and stderr of a rank; not owned.
struct Stdio {
  int in;
  int out;
  int err;
};

struct StartFailure {
  Step step;
  int os_errno;
};

struct Started {
  pid_t pid = 0;  ///< 0: not started, and `failure` says why
  std::optional<StartFailure> failure;
};

/// Starts the program of `plan`.  Returns when execve has succeeded or a step has failed.  The rank ignores the signals
/// in `ignored`; all others have their default action and are unblocked.  The kernel kills the rank when this process
/// dies.
Started start_rank(const SpawnPlan& plan, const Stdio& stdio, const SignalSet& ignored);

/// The signals that this process ignores now; the launcher lets its ranks ignore them too.
SignalSet ignored_signals();

}  // namespace runtime::guard
