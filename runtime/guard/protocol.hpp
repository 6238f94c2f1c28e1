// SPDX-License-Identifier: Apache-2.0
// runtime/guard/protocol.hpp — what the launcher and its process guard say to each other over their SOCK_SEQPACKET
// pair. Both ends are one program forked in two, so there are no versions; sizes and kinds are checked all the same.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime::guard {

inline constexpr std::int32_t kEveryRank = -1;

/// Launcher to process guard.
struct Request {
  enum class Kind : std::uint32_t {
    spawn,     ///< with four descriptors: the plan (a memfd), stdin, stdout, stderr
    signal,    ///< `signal` to the process group of `rank`, or of every living rank
    kill_all,  ///< SIGKILL to every process of the job, until none is left; answered by `empty`
    alive,     ///< the launcher runs; wanted regularly by a process guard with timeout
    quit,      ///< nothing is left to guard: exit without cleaning up
  };
  Kind kind;
  std::int32_t rank;
  std::int32_t signal;
};

/// What prevented a rank from starting.
enum class Step : std::uint32_t { fork, chdir, bind, exec, plan };

/// Guard to launcher.
struct Report {
  enum class Kind : std::uint32_t {
    started,  ///< `pid` runs the program of `rank`
    refused,  ///< `rank` did not start: `step` failed with errno `status`
    exited,   ///< `pid` of `rank` ended with wait status `status`
    empty,    ///< no process of the job is left
  };
  Kind kind;
  std::int32_t rank;
  std::int32_t pid;
  std::int32_t status;
  Step step;
};
static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Report>, "sent as bytes");

/// How to start one rank.  Travels in a memfd: arguments and environment may be megabytes.
struct SpawnPlan {
  std::string path;                    ///< of the program, absolute or relative to working_directory
  std::vector<std::string> arguments;  ///< with the program's name first
  std::vector<std::string> environment;
  std::string working_directory;    ///< empty: the launcher's
  std::vector<std::uint32_t> cpus;  ///< to bind to; empty: not bound
  std::uint64_t open_files = 0;     ///< soft limit to restore; 0: leave it
  friend bool operator==(const SpawnPlan&, const SpawnPlan&) = default;
};

/// Sends one message with descriptors.  Errors: peer_gone, os.
Result<void> send_message(int socket, ByteSpan message, const std::vector<int>& fds = {});

struct Received {
  std::size_t size = 0;  ///< 0 = the other side is gone
  std::vector<Fd> fds;
};

/// Receives one message into `message`; nothing when there is none now and `wait` is false.  Errors: protocol, os.
Result<std::optional<Received>> receive_message(int socket, opal::MutableBytes message, bool wait);

}  // namespace runtime::guard
