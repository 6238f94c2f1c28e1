// SPDX-License-Identifier: Apache-2.0
// runtime/guard/rank_process.hpp — fork and exec of one rank: its own process group, binding, directory, stdio.
// Only the process guard calls it: a process with one thread, in which a forked child may still allocate.
#pragma once
#include <sys/types.h>

#include <bitset>

#include "runtime/guard/protocol.hpp"

namespace runtime::guard {

using SignalSet = std::bitset<65>;  ///< index = signal number

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
  pid_t pid = 0;
  std::optional<StartFailure> failure;
};

/// Starts the program of `plan`; returns when it runs or cannot.  Signals in `ignored` stay ignored, all others are at
/// their defaults and unblocked.  The rank gets SIGKILL when this process dies.
Started start_rank(const SpawnPlan& plan, const Stdio& stdio, const SignalSet& ignored);

/// The signals this process ignores now.
SignalSet ignored_signals();

}  // namespace runtime::guard
