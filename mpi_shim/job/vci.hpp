// SPDX-License-Identifier: Apache-2.0
// mpi_shim/job/vci.hpp — a virtual communication interface: one Context, and the Engine, Scheduler and Windows that use
// it.  One VCI carries all messages of a communicator, so threads with communicators on different VCIs do not
// contend for a lock (docs/design/vcis.md).
// Owned by the Job; borrows the Vcis and the client.
// Threads: the Context's lock guards all parts of a VCI.  A thread never holds the locks of two VCIs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/p2p/waits/vcis.hpp"
#include "mpi_shim/rma/config.hpp"
#include "opal/am/config.hpp"
#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"

namespace mpi_shim::coll {
class Scheduler;
}
namespace mpi_shim::rma {
class Windows;
}

namespace mpi_shim {

class Vci final : private p2p::Connector, private am::Observer {
 public:
  struct Settings {
    p2p::Config messages;
    coll::Config collectives;
    rma::Config windows;
    am::Config waits;
    opal::Secret secret;   ///< of the job
    bool threads = false;  ///< several threads may call MPI, or `helper` is set: the lock is a real one
    bool helper = false;   ///< a helper thread for one-sided accesses may be started
  };

  using All = std::vector<std::unique_ptr<Vci>>;

  /// Opens one more VCI and appends it to `all`.  When one VCI loses a process, it reports the loss to the others.
  /// Requires: no other thread uses `all` yet; `vcis` and `client` outlive the VCI.  Errors: am::Context::open(),
  /// Engine::open(), Windows::open().
  static Result<void> open(All& all, p2p::Vcis& vcis, runtime::Client& client, const config::Store& store,
                           const Settings& settings);
  ~Vci();

  [[nodiscard]] am::Context& context() noexcept { return *context_; }
  /// The Engines of all VCIs of the process.
  [[nodiscard]] p2p::Vcis& vcis() noexcept { return vcis_; }
  [[nodiscard]] p2p::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] coll::Scheduler& scheduler() noexcept { return *scheduler_; }
  [[nodiscard]] rma::Windows& windows() noexcept { return *windows_; }
  /// The state of a process of the job in this VCI.  Valid as long as the VCI.
  [[nodiscard]] p2p::Peer& peer(int process) noexcept { return peers_[static_cast<std::size_t>(process)]; }

  /// Puts the Context's address into the job's key-value store.  The caller then calls commit() and fence() of the
  /// client once for all VCIs.
  Result<void> publish();

 private:
  Vci(const All& all, p2p::Vcis& vcis, runtime::Client& client);
  Result<am::Endpoint*> connect(int process) override;
  void on_peer_failed(int process, const Error& why) noexcept override;
  void on_peer_failed(am::Endpoint& peer, const Error& why) noexcept override;

  const All& all_;
  p2p::Vcis& vcis_;
  runtime::Client& client_;
  const std::string address_key_;
  std::vector<p2p::Peer> peers_;  // by process number; never resized, since others hold pointers to its elements
  std::unique_ptr<am::Context> context_;
  std::unique_ptr<p2p::Engine> engine_;
  std::unique_ptr<coll::Scheduler> scheduler_;
  std::unique_ptr<rma::Windows> windows_;
};

}  // namespace mpi_shim
