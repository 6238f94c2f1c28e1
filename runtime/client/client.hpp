// SPDX-License-Identifier: Apache-2.0
// runtime/client/client.hpp — a process's view of its job: its rank, and the exchange of small data between ranks.
// Under any launcher that speaks PMIx (opalrun, srun --mpi=pmix, mpirun) it is a PMIx client; without one the process
// is rank 0 of 1 and libpmix is never called.  Fetch peers' data lazily: get() of one key from one rank at a time.
// One Client per process at a time.  Threads: everything is safe from any thread once open() returned, except that
// finalize() and the destructor must come after all other calls.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace runtime {

/// The key under which every process publishes the address blob of its active-message Context.
inline constexpr std::string_view kAddressKey = "opal.am";

/// What opalrun asks of every rank for a checkpoint (docs/design/checkpoint.md).
struct CheckpointStep {
  enum class Kind : std::uint8_t { quiesce, checkpoint, resume };
  Kind kind = Kind::resume;
  std::uint64_t round = 0;  ///< the same from quiesce to resume, and higher than any before
};

class OPAL_EXPORT Client {
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr std::chrono::seconds kDefaultTimeout{60};

  /// Joins the job, or becomes a singleton when no launcher is there.  Errors: unreachable (the launcher named in the
  /// environment does not answer), protocol (it does not say how large the job is).
  static opal::Result<std::unique_ptr<Client>> open();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] unsigned rank() const noexcept;
  [[nodiscard]] unsigned size() const noexcept;
  [[nodiscard]] bool singleton() const noexcept;

  /// The same for all ranks of the job, and no other job's.
  [[nodiscard]] const std::string& job_id() const noexcept;

  /// Ranks on this host, in ascending order, this one included.
  [[nodiscard]] const std::vector<unsigned>& local_peers() const noexcept;
  [[nodiscard]] bool is_local(unsigned rank) const noexcept;
  [[nodiscard]] unsigned local_size() const noexcept;

  /// Offers `value` under `key` to all ranks from the next commit() on.  Errors: invalid_argument (key too long), ...
  opal::Result<void> put(std::string_view key, opal::ByteSpan value);
  opal::Result<void> commit();

  /// Returns when every rank of the job has called it.  Errors: peer_gone (a rank died), unreachable.
  /// Under Slurm a death fails the fence at once only at ranks of the same host; abort() there ends the step.  At other
  /// hosts it fails after PMIxTimeout of mpi.conf (300 s), as does a fence in which the last host is later than that.
  opal::Result<void> fence();

  /// The same, and calls `work` in this thread again and again until then.
  opal::Result<void> fence_while(const std::function<void()>& work);

  /// The value that `rank` put, as soon as it has committed it.  Errors: timed_out, invalid_argument (no such rank, or
  /// for a singleton no such key), unreachable.
  opal::Result<Bytes> get(unsigned rank, std::string_view key, std::chrono::seconds timeout = kDefaultTimeout);
  /// What the ranks of this job prove to each other; for am::Options::secret of every Context that is opened later.
  /// The file that am_secret_file names, which opalrun does; else random: a singleton's own, or under another launcher
  /// made by rank 0 and read by all from the job's PMIx namespace.  Once per rank; waits for rank 0's call.
  /// Errors: those of Secret::read_file, put(), commit() and get().
  opal::Result<opal::Secret> secret(const opal::config::Store& store);

  /// Calls `handler` with each rank of the job that the launcher reports as dead while the job goes on, also with those
  /// that it reported before.  An empty one ends that, and returns after the last call.  Called by a thread of libpmix:
  /// it must neither block nor call this Client.  A singleton has no peers.
  void on_death(std::function<void(unsigned rank)> handler);

  /// Takes part in the checkpoints that opalrun --quiesce asks for; an empty handler ends that, and returns after the
  /// last call.  The handler is called with each step: quiesce (perhaps twice), checkpoint, resume; resume may come at
  /// any point.  A thread of libpmix calls it: it must neither block nor call this Client.  Each step but resume is to
  /// be answered.  Under another launcher, and for a singleton, nothing happens.
  void on_checkpoint(std::function<void(const CheckpointStep& step)> handler);
  /// The step has been done here: after quiesce() Contexts are quiescent, after checkpoint() caches are empty; or
  /// `problem` says why it cannot be.
  void answer_checkpoint(const CheckpointStep& step, const std::string& problem = {});

  /// Ends the whole job: the launcher reports `text` once and exits with `status`.  Does not return.
  [[noreturn]] void abort(int status, std::string_view text) noexcept;

  /// Leaves the job; a rank that ends without it is a failure.  The destructor does it too.  Errors: unreachable.
  opal::Result<void> finalize();

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace runtime
