// SPDX-License-Identifier: Apache-2.0
// mpi_shim/job/vci.hpp — one of the ways on which a process exchanges messages: a Context of its own, and what runs
// over it.  A communicator lives on one VCI with all its messages, so that threads with communicators on different
// VCIs share nothing (docs/design/vcis.md).
// Owned by the Process.  Threads: what belongs to a VCI is guarded by its Context's lock; two VCIs' locks are never
// held by one thread at once.
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
    bool threads = false;  ///< several may be about
    bool helper = false;   ///< one of them a helper of one-sided accesses
  };

  using All = std::vector<std::unique_ptr<Vci>>;

  /// One more VCI of a process, which hears of processes that the others lose.  Before there are other threads.
  /// Errors: those of am::Context::open.
  static Result<void> open(All& all, p2p::Vcis& vcis, runtime::Client& client, const config::Store& store,
                           const Settings& settings);
  ~Vci();
  Vci(const Vci&) = delete;
  Vci& operator=(const Vci&) = delete;

  [[nodiscard]] am::Context& context() noexcept { return *context_; }
  /// How threads wait on all VCIs of the process.
  [[nodiscard]] p2p::Vcis& vcis() noexcept { return vcis_; }
  [[nodiscard]] p2p::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] coll::Scheduler& scheduler() noexcept { return *scheduler_; }
  [[nodiscard]] rma::Windows& windows() noexcept { return *windows_; }
  /// A process of the job, as this VCI knows it.
  [[nodiscard]] p2p::Peer& peer(int process) noexcept { return peers_[static_cast<std::size_t>(process)]; }

  /// Puts the address among what the job's processes may ask for; a commit and a fence are to follow.
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
  std::vector<p2p::Peer> peers_;  // by process number; never grows
  std::unique_ptr<am::Context> context_;
  std::unique_ptr<p2p::Engine> engine_;
  std::unique_ptr<coll::Scheduler> scheduler_;
  std::unique_ptr<rma::Windows> windows_;
};

}  // namespace mpi_shim
