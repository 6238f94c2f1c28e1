// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/server.hpp — the PMIx server inside the launcher: the ranks' PMIx library talks to it.
// libpmix keeps two threads of its own; every upcall is handed to the loop and answered from there.  libpmix is one per
// process, so there is one Server per process; it is never finalized and must live until the process ends with _exit.
// Threads: the loop's thread.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::pmix {

/// From best to worst: `ending` processes have begun to exit, which is not reported yet.
enum class Liveness { alive, ending, ended };

/// What the server needs from the job; called in the loop's thread.
class Host {
 public:
  virtual ~Host() = default;
  virtual void on_abort(unsigned rank, int status, const std::string& text) = 0;
  /// Of a rank of this host; of others `alive`.
  [[nodiscard]] virtual Liveness liveness(unsigned rank) const = 0;
  /// Of a rank of this host; 0 of others, and until it runs.
  [[nodiscard]] virtual pid_t pid(unsigned rank) const = 0;
  /// A rank of this host has called PMIx_Init.
  virtual void on_joined() = 0;
  /// A member of this host has lost its connection: it ends, or errs.
  virtual void on_disconnected(unsigned rank) = 0;
  /// What a rank says (checkpoint_words.hpp).
  virtual void on_checkpoint(unsigned rank, const std::string& text) = 0;
  /// That the ranks run, for queries.
  [[nodiscard]] virtual const std::string& program() const = 0;
};

class Server {
 public:
  /// Starts the server and registers the job.  Errors: os, internal (libpmix's status in the detail).
  static Result<std::unique_ptr<Server>> start(event::Loop& loop, const JobDescription& job, Host& host);
  ~Server();

  /// Makes the other hosts' servers known, before any rank runs; without it all ranks are here.
  void join(Cluster& cluster);

  /// What `rank` of this host has committed, as soon as it has.
  void modex(unsigned rank, Cluster::Data answer);

  /// The names of the whole job: used on the launcher's host only.
  void names(const NameRequest& request, const Cluster::Items& answer);
  /// That rank, wherever it was, has ended.
  void end_names(unsigned owner);

  /// Environment variables by which `rank` finds the server.  Errors: internal.
  Result<std::vector<std::pair<std::string, std::string>>> variables(unsigned rank);

  /// False while `rank` is a member that has not left: it called PMIx_Init but not PMIx_Finalize.
  [[nodiscard]] bool left_properly(unsigned rank) const;

  /// Whether `rank`, of this host, called PMIx_Init.
  [[nodiscard]] bool has_joined(unsigned rank) const;

  /// Whether a living rank of this host is a member, and may wait for others.
  [[nodiscard]] bool has_members() const;

  /// Tells the other ranks' event handlers that `rank` died.
  void announce_death(unsigned rank);

  /// Tells the ranks' event handlers that the host of this index is gone (PMIX_EVENT_NODE_DOWN), and with it its ranks.
  void announce_lost_host(std::size_t host);

  /// Tells the ranks' event handlers what a rank of another host has raised.
  void notify(const PackedEvent& event);

  /// Asks the ranks of all hosts for a step of a checkpoint (checkpoint_words.hpp).
  void ask_for_checkpoint(const std::string& request);

  /// A rank has ended and the job knows: answers that waited for it are given.
  void on_rank_ended();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// As its argv[0] the launcher's own program, with the environment of a rank, is a stand-in: it takes the place of a
/// rank that ended before it joined the job.  libpmix waits for every rank of a host in what they do together, and
/// counts out only a rank whose connection breaks: one that never connected would be awaited for ever.
inline constexpr std::string_view kStandInName = "opal-stand-in";
/// Connects as that rank and ends.
[[noreturn]] void stand_in() noexcept;

/// Removes from this process's environment what an outer launcher left there for us as its client.
void forget_outer_launcher();

}  // namespace runtime::pmix
