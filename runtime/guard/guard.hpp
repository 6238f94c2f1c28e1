// SPDX-License-Identifier: Apache-2.0
// runtime/guard/guard.hpp — the process guard: a process with one thread that is the parent of the ranks of a host.
// The launcher (or daemon; both are called launcher here) forks it before it has threads.  The process guard starts
// ranks on request and reports how they end.  It is a subreaper, so it inherits every orphan of the job.
//  - When the launcher dies for any reason, or is stopped longer than the timeout, the process guard kills all
//    processes of the job and removes the session directory.
//  - When the process guard dies, the kernel kills the ranks (PR_SET_PDEATHSIG); the launcher, also a subreaper,
//    inherits the other processes and kills them.
#pragma once
#include <string>

#include "runtime/guard/rank_process.hpp"

namespace runtime::guard {

struct Duty {
  int socket;                     ///< SOCK_SEQPACKET to the launcher; not owned
  std::string session_directory;  ///< removed when the launcher dies; empty: none
  int timeout_ms;                 ///< without a request the launcher counts as stopped after 1.25 times this; -1: never
  SignalSet ignored;              ///< signals that the ranks ignore, as the launcher's caller did
};

/// Runs the process guard.  Returns after Request::quit, or when the launcher has died and no process of the job is
/// left; the process must then exit.
void serve(const Duty& duty);

}  // namespace runtime::guard
