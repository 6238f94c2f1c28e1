// SPDX-License-Identifier: Apache-2.0
// runtime/host/rank_host.hpp — the ranks of one host as the job sees them, wherever that host is.
// Threads: the loop's thread; observers are called from the loop, never from inside a call of theirs.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime::launch {

struct Started {
  std::uint32_t rank = 0;
  pid_t pid = 0;
};
/// The rank does not start; the job's exit status, and why.
struct Refused {
  std::uint32_t rank = 0;
  int status = 0;
  std::string why;
};
struct Exited {
  std::uint32_t rank = 0;
  int wait_status = 0;
  bool left_properly = false;
};
/// The host cannot go on as it should; the job must end with this status.
struct Trouble {
  int status = 0;
  std::string why;
};
/// No process of the job is left on the host, and all their output is here.
struct Emptied {};
/// A rank asks for the end of the job.
struct Abort {
  std::uint32_t rank = 0;
  int status = 0;
  std::string text;
};
/// What a rank says about a checkpoint (checkpoint_words.hpp).
struct Checkpoint {
  std::uint32_t rank = 0;
  std::string text;
};
/// A line for people.
struct Say {
  std::string line;
};
/// The answer to inquire().
struct Answered {};

/// What becomes of a host's ranks; daemons send it as it is, so a change of it is one of their messages (daemon/tree/
/// messages.hpp).
using Report = std::variant<Started, Refused, Exited, Trouble, Emptied, Abort, Checkpoint, Say, Answered>;
using RankHostObserver = std::function<void(const Report& report)>;

class RankHost {
 public:
  virtual ~RankHost() = default;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::uint32_t>& ranks() const noexcept = 0;

  /// Starts all ranks; each is reported started or refused.
  virtual void start() = 0;
  /// To the process groups of all ranks that live.  A signal that ends the job also stops the starting of more.
  virtual void signal(int signo, bool ends_the_job) = 0;
  /// Kills every process of the job on the host, and reports it empty.
  virtual void kill_all() = 0;
  /// Tells the ranks' event handlers that `rank` died.
  virtual void announce_death(unsigned rank) = 0;
  /// Ranks that are being started now: neither reported yet nor held back.
  [[nodiscard]] virtual std::size_t starting() const noexcept { return 0; }
  /// Ranks that have begun to exit and whose end has not been reported: the cause of other failures may be among them.
  /// Of other hosts only their daemons know these and the former.
  [[nodiscard]] virtual std::vector<std::uint32_t> dying_ranks() const { return {}; }
  /// Asks the host for all ends of ranks that it knows of; Answered follows when they have been reported.  Nothing
  /// happens where dying_ranks() tells them.
  virtual void inquire() {}
  /// True between inquire() and Answered.  A host that is lost owes nothing.
  [[nodiscard]] virtual bool owes_answer() const { return false; }
};

}  // namespace runtime::launch
