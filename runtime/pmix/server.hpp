// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/server.hpp — the PMIx server inside the launcher and each daemon, for the ranks of its host.
// libpmix has two threads of its own; each upcall is posted to the loop and answered from there.  libpmix has global
// state, so there is one Server per process.  It is never finalized and must live until the process ends with _exit.
// Threads: the loop's thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/job_data.hpp"
#include "runtime/pmix/name_service.hpp"

namespace runtime::pmix {

/// The state of a process, from best to worst.  `ending`: it has begun to exit, and its end is not reported yet.
enum class Liveness { alive, ending, ended };

/// The calls of the server to the launcher or daemon, about the ranks of this host; made in the loop's thread.
class ServerUser {
 public:
  virtual ~ServerUser() = default;
  /// `rank` has called PMIx_Abort.
  virtual void on_abort(unsigned rank, int status, const std::string& text) = 0;
  /// The state of a rank of this host; `alive` for ranks of other hosts.
  [[nodiscard]] virtual Liveness liveness(unsigned rank) const = 0;
  /// A rank of this host has called PMIx_Init.
  virtual void on_joined() = 0;
  /// A rank that has not called PMIx_Finalize has lost its connection to the server: it exits, or has closed it.
  virtual void on_disconnected(unsigned rank) = 0;
  /// `rank` has sent a checkpoint message (checkpoint_words.hpp).
  virtual void on_checkpoint(unsigned rank, const std::string& text) = 0;
};

struct Core;

class Server {
 public:
  /// Starts the server and registers the job.  `loop` and `user` must outlive the server.  Errors: those of to_error()
  /// (status.hpp), unreachable (the loopback interface has no IPv4 address).
  static Result<std::unique_ptr<Server>> start(event::Loop& loop, const JobDescription& job, ServerUser& user);
  ~Server();

  /// Sets the connection to the servers of the other hosts.  Without it all ranks are on this host.  Requires: no rank
  /// runs yet.  `cluster` must outlive the server.
  void set_cluster(Cluster& cluster);

  /// Calls `answer` with the data that `rank` of this host has committed; if there is none yet, at the commit.
  /// PMIX_ERR_PROC_TERM_WO_SYNC: the rank has ended without one.
  void modex(unsigned rank, Cluster::Data answer);

  /// The job's name service; only the launcher's server has the names.
  [[nodiscard]] NameService& names() noexcept;

  /// The environment variables by which `rank` of this host finds the server.  Errors: those of to_error().
  Result<std::vector<std::pair<std::string, std::string>>> variables(unsigned rank);

  /// True when `rank` of this host has called PMIx_Init but not PMIx_Finalize.
  [[nodiscard]] bool is_initialized(unsigned rank) const;

  /// True when `rank` of this host has called PMIx_Init.
  [[nodiscard]] bool has_joined(unsigned rank) const;

  /// True when a living rank of this host has called PMIx_Init and not PMIx_Finalize: it may wait for other ranks.
  [[nodiscard]] bool has_initialized_ranks() const;

  /// Reports the death of `rank` to the event handlers of the ranks on this host.
  void announce_death(unsigned rank);

  /// Reports the loss of host number `host` (PMIX_EVENT_NODE_DOWN) and of its ranks to the event handlers of the ranks
  /// on this host.
  void announce_lost_host(std::size_t host);

  /// Delivers an event of another host to the event handlers of the ranks on this host.
  void notify(const PackedEvent& event);

  /// Sends a checkpoint request (checkpoint_words.hpp) to the ranks of all hosts.
  void ask_for_checkpoint(const std::string& request);

  /// The end of a rank of this host has been reported: gives the answers that were delayed until then.
  void on_rank_ended();

 private:
  explicit Server(std::unique_ptr<Core> core) noexcept;
  Result<void> register_ranks();
  std::unique_ptr<Core> core_;
};

/// argv[0] of a stand-in: opalrun or opald, run with the environment of a rank that ended before it called PMIx_Init.
/// libpmix's collective operations wait for every rank of a host.  They leave out a rank when its connection breaks, so
/// they would wait for ever for a rank that never connected.  The stand-in connects in its place and exits.
inline constexpr std::string_view kStandInName = "opal-stand-in";
/// The main function of a stand-in: calls PMIx_Init and exits.
[[noreturn]] void stand_in() noexcept;

/// Removes the PMIX_ variables of an outer launcher from this process's environment, except PMIX_MCA_ ones.
void forget_outer_launcher();

}  // namespace runtime::pmix
