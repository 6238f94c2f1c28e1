// SPDX-License-Identifier: Apache-2.0
// runtime/host/rank_host.hpp — the ranks of one host as the job sees them, wherever that host is.
// Threads: the loop's thread; observers are called from the loop, never from inside a call of theirs.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime::launch {

/// Told what becomes of a host's ranks.
struct RankHostObserver {
  std::function<void(unsigned rank, pid_t pid)> on_started;
  /// The rank does not start; the job's exit status, and why.
  std::function<void(unsigned rank, int status, const std::string& why)> on_refused;
  std::function<void(unsigned rank, int wait_status, bool left_properly)> on_exited;
  /// The host cannot go on as it should; the job must end with this status.
  std::function<void(int status, const std::string& why)> on_trouble;
  /// No process of the job is left on the host, and all their output is here.
  std::function<void()> on_empty;
  /// A rank asks for the end of the job.
  std::function<void(unsigned rank, int status, const std::string& text)> on_abort;
  /// What a rank says about a checkpoint (checkpoint_words.hpp).
  std::function<void(unsigned rank, const std::string& text)> on_checkpoint;
  /// A line for people.
  std::function<void(const std::string& line)> say;
  /// The answer to inquire().
  std::function<void()> on_answered = [] {};
};

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
  [[nodiscard]] virtual std::size_t starting() const noexcept = 0;
  /// Ranks that have begun to exit and whose end has not been reported: the cause of other failures may be among them.
  [[nodiscard]] virtual std::vector<std::uint32_t> dying_ranks() const = 0;
  /// Asks the host for all ends of ranks that it knows of; on_answered follows when they have been reported.  Nothing
  /// happens where dying_ranks() tells them.
  virtual void inquire() {}
  /// True between inquire() and on_answered.  A host that is lost owes nothing.
  [[nodiscard]] virtual bool owes_answer() const { return false; }
};

}  // namespace runtime::launch
