// SPDX-License-Identifier: Apache-2.0
// runtime/guard/guard.hpp — the process guard: a tiny process with one thread that is the parent of every rank.
// It is forked before the launcher has threads, starts ranks on request, reports how they end, and, being a subreaper,
// owns every process of the job.  When the launcher dies, however it dies, or is stopped for too long, the process
// guard kills all of them and removes the session directory.  When the process guard dies the kernel kills the ranks,
// and the launcher inherits and ends the rest.
#pragma once
#include <string>

#include "runtime/guard/rank_process.hpp"

namespace runtime::guard {

struct Duty {
  int socket;                     ///< to the launcher
  std::string session_directory;  ///< removed when the launcher dies
  int timeout_ms;                 ///< without a word from the launcher, until it counts as stopped; -1: for ever
  SignalSet ignored;              ///< signals that ranks ignore as the launcher's caller did
};

/// The process guard's life; returns when nothing is left to do and the process should exit.
void serve(const Duty& duty);

}  // namespace runtime::guard
