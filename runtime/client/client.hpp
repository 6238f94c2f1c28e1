// SPDX-License-Identifier: Apache-2.0
// runtime/client/client.hpp — a process's view of its job: its rank, and the exchange of small data between ranks.
// Under any launcher that speaks PMIx (opalrun, srun --mpi=pmix, mpirun) it is a PMIx client.  Without a launcher the
// process is a singleton: rank 0 of 1, and libpmix is never called.  Fetch the data of a peer when it is first needed:
// get() transfers one key of one rank.  One Client per process at a time.  Threads: all functions are safe from any
// thread, except that finalize() and the destructor must come after all other calls.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace runtime {

/// The key under which every process publishes the address of its active-message Context.
inline constexpr std::string_view kAddressKey = "opal.am";

/// A request of opalrun to every rank, for a checkpoint (docs/design/checkpoint.md).
struct CheckpointStep {
  enum class Kind : std::uint8_t { quiesce, checkpoint, resume };
  Kind kind = Kind::resume;
  std::uint64_t round = 0;  ///< number of the checkpoint: the same from quiesce to resume; grows with each checkpoint
};

class OPAL_EXPORT Client {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::chrono::seconds kDefaultTimeout{60};

  /// Joins the job; makes a singleton if PMIX_NAMESPACE is not in the environment.  Before it joins a job it starts
  /// the memory monitor, whose start takes longer once libpmix has threads.  Errors: unreachable and others of
  /// PMIx_Init (the launcher does not answer), protocol (it does not report the job's size), invalid_argument (a bad
  /// value of a memory_* variable).
  static opal::Result<std::unique_ptr<Client>> open();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] unsigned rank() const noexcept;
  [[nodiscard]] unsigned size() const noexcept;
  [[nodiscard]] bool singleton() const noexcept;
  /// The number of this rank's program among those of the launcher's command (MPI_APPNUM); empty: not given.
  [[nodiscard]] std::optional<unsigned> application() const noexcept;

  /// The name of the job: equal in all its ranks, different from that of every other job.
  [[nodiscard]] const std::string& job_id() const noexcept;

  /// Ranks on this host, in ascending order, this one included.
  [[nodiscard]] const std::vector<unsigned>& local_peers() const noexcept;
  [[nodiscard]] bool is_local(unsigned rank) const noexcept;
  [[nodiscard]] unsigned local_size() const noexcept;

  /// Copies `value`; the next commit() publishes it under `key` to all ranks.  Errors: invalid_argument (key empty or
  /// longer than PMIX_MAX_KEYLEN), those of PMIx_Put.
  opal::Result<void> put(std::string_view key, opal::ByteSpan value);
  /// Publishes all values that were put().  Does not wait for other ranks.  Errors: those of PMIx_Commit.
  opal::Result<void> commit();

  /// Returns when every rank of the job has called it.  Errors: peer_gone (a rank died), unreachable.
  /// Under Slurm, when a rank dies, the fence fails at once only in ranks of the same host; abort() then ends the Slurm
  /// step. On other hosts the fence fails after PMIxTimeout of mpi.conf (300 s).  It also fails if the last host
  /// arrives later than that.
  opal::Result<void> fence();

  /// As fence(), but calls `work` repeatedly in the calling thread until all ranks have arrived.
  opal::Result<void> fence_while(const std::function<void()>& work);

  /// Waits at most `timeout` until `rank` has committed `key`; returns a copy of the value.  Errors: timed_out,
  /// invalid_argument (no such rank; for a singleton also no such key), unreachable.
  opal::Result<Bytes> get(unsigned rank, std::string_view key, std::chrono::seconds timeout = kDefaultTimeout);
  /// Returns the secret of the job, for am::Options::secret of each Context that is opened later.  Sources, in order:
  ///  - the file that am_secret_file names (opalrun sets this variable);
  ///  - for a singleton, a random secret;
  ///  - under another launcher, a random secret that rank 0 publishes: the call waits for that of rank 0.
  /// Call it once per rank.  Errors: those of am::named_secret_text(), put(), commit() and get().
  opal::Result<opal::Secret> secret(const opal::config::Store& store);

  /// Installs `handler`.  It runs for each rank of the job that the launcher reports as dead while the job goes on,
  /// also for ranks reported before this call.  It runs in a thread of libpmix and must neither block nor call this
  /// Client.  An empty `handler` removes the previous one; it does not run after this call has returned.  A singleton
  /// ignores the call.
  void on_death(std::function<void(unsigned rank)> handler);

  /// Installs `handler` for the steps of a checkpoint (opalrun --quiesce) and announces to opalrun that this rank takes
  /// part.  The steps are quiesce (usually twice), checkpoint, resume; resume may come at any point.  The caller
  /// reports each step except resume with answer_checkpoint().  The handler runs in a thread of libpmix and must
  /// neither block nor call this Client.  An empty `handler` removes the previous one; it does not run after this call
  /// has returned.  A singleton, and a rank under another launcher, ignore the call.
  void on_checkpoint(std::function<void(const CheckpointStep& step)> handler);
  /// Reports to opalrun that this rank has done `step`: after quiesce its Contexts are quiescent, after checkpoint its
  /// caches are empty.  A `problem` that is not empty means that the rank cannot do the step, and why.  Does not wait.
  void answer_checkpoint(const CheckpointStep& step, const std::string& problem = {});

  /// Flushes all stdio streams.  Returns after 1 s in any case, since another thread may keep a stream locked.
  static void flush_files() noexcept;

  /// Ends the whole job.  opalrun reports `text` once and exits with the low 8 bits of `status` (1 if they are 0).
  /// Under another launcher, and as a singleton, this process prints `text` to stderr.
  [[noreturn]] void abort(int status, std::string_view text) noexcept;

  /// Leaves the job.  The launcher counts a rank that ends without this call as failed.  The destructor calls it if the
  /// user has not.  Errors: unreachable.
  opal::Result<void> finalize();

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace runtime
