// SPDX-License-Identifier: Apache-2.0
// runtime/host/rank_host.hpp — the interface of Job to the ranks of one host: LocalHost for the launcher's own host,
// daemon::RemoteHost for another.  A daemon also has a LocalHost, for its own host, and sends its
// reports to the launcher's RemoteHost.
// Threads: the loop's thread.  Reports come from the loop, but Emptied may also come from inside kill_all().
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
/// The rank does not start.
struct Refused {
  std::uint32_t rank = 0;
  int status = 0;  ///< exit status for the job
  std::string why;
};
struct Exited {
  std::uint32_t rank = 0;
  int wait_status = 0;         ///< as of waitpid(2)
  bool left_properly = false;  ///< it called PMIx_Finalize, or never PMIx_Init
};
/// The host cannot run its ranks any more; they count as ended.
struct Trouble {
  int status = 0;  ///< exit status for the job
  std::string why;
};
/// No process of the job is left on the host, and all output of the ranks has been read.  Follows kill_all(), or the
/// Trouble of a LocalHost whose process guard has died.
struct Emptied {};
/// A rank has called PMIx_Abort.
struct Abort {
  std::uint32_t rank = 0;
  int status = 0;
  std::string text;
};
/// A rank has sent a checkpoint message (checkpoint_words.hpp).
struct Checkpoint {
  std::uint32_t rank = 0;
  std::string text;
};
/// A line to print on the launcher's stderr.
struct Say {
  std::string line;
};
/// The answer to inquire().
struct Answered {};

/// News of a host.  Daemons send it in this form: change it => bump the number of daemon::kBootstrapMark.
using Report = std::variant<Started, Refused, Exited, Trouble, Emptied, Abort, Checkpoint, Say, Answered>;
using RankHostObserver = std::function<void(const Report& report)>;

class RankHost {
 public:
  virtual ~RankHost() = default;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::uint32_t>& ranks() const noexcept = 0;  ///< ascending

  /// Starts all ranks; reports Started or Refused for each.  Ranks whose start signal() or kill_all() has stopped have
  /// no report.
  virtual void start() = 0;
  /// Sends `signo` to the process groups of all living ranks.  `ends_the_job` also stops the start of further ranks.
  virtual void signal(int signo, bool ends_the_job) = 0;
  /// Kills every process of the job on the host, then reports Emptied.
  virtual void kill_all() = 0;
  /// Reports the death of `rank` to the PMIx event handlers of the ranks on this host.
  virtual void announce_death(unsigned rank) = 0;
  /// Number of ranks whose start has been requested from the process guard and neither succeeded nor
  /// failed.  0 for a remote host: only its daemon knows.
  [[nodiscard]] virtual std::size_t starting() const noexcept { return 0; }
  /// Ranks that exit, or have lost their connection to the PMIx server, and are not reported yet: the cause of other
  /// failures may be among them.  Empty for a remote host: only its daemon knows.
  [[nodiscard]] virtual std::vector<std::uint32_t> dying_ranks() const { return {}; }
  /// Requests from a remote host the reports of all ranks that have ended or are exiting; Answered follows them.  Does
  /// nothing for the local host, which has dying_ranks().
  virtual void inquire() {}
  /// True from inquire() until Answered.  False for a lost host.
  [[nodiscard]] virtual bool owes_answer() const { return false; }
};

}  // namespace runtime::launch
