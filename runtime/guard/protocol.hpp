// SPDX-License-Identifier: Apache-2.0
// runtime/guard/protocol.hpp — the messages between the launcher and its process guard, over a SOCK_SEQPACKET pair.
// The launcher (or daemon; both are called launcher here) forks the process guard, so messages have no version.
// Receivers check the sizes.
#pragma once

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
    alive,     ///< restarts the timeout of the process guard
    quit,      ///< no process of the job is left: exit
  };
  Kind kind;
  std::int32_t rank;    ///< of spawn and signal; kEveryRank (signal only): all living ranks
  std::int32_t signal;  ///< of signal
};

/// The step of a start that failed.  plan: the SpawnPlan could not be received.
enum class Step : std::uint32_t { fork, chdir, bind, exec, plan };

/// Process guard to launcher.
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

/// How to start one rank.  Sent in a memfd, since arguments and environment may have megabytes.
struct SpawnPlan {
  std::string path;                    ///< of the program, absolute or relative to working_directory
  std::vector<std::string> arguments;  ///< with the program's name first
  std::vector<std::string> environment;
  std::string working_directory;    ///< empty: the launcher's
  std::vector<std::uint32_t> cpus;  ///< to bind to; empty: not bound
  std::uint64_t open_files = 0;     ///< soft limit of open files for the rank; 0: the inherited one
  friend bool operator==(const SpawnPlan&, const SpawnPlan&) = default;
};

/// Sends one message with at most 4 descriptors, which stay the caller's.  Blocks while the socket's buffer is full.
/// Errors: peer_gone, os, invalid_argument (too many descriptors).
Result<void> send_message(int socket, ByteSpan message, const std::vector<int>& fds = {});

struct Received {
  std::size_t size = 0;  ///< bytes; 0: the other side has closed the socket
  std::vector<Fd> fds;
};

/// Receives one message into `message`; returns nothing if none is there.
/// Errors: protocol (another size than that of `message`, more than 4 descriptors, or no room for them here), os.
Result<std::optional<Received>> receive_message(int socket, opal::MutableBytes message);

}  // namespace runtime::guard
