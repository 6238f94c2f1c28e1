// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/acceptor.hpp — the listening socket and the pending connections.
// A pending connection costs a descriptor and about 250 bytes.  At Config::max_pending of them the oldest is closed.
// Bytes of an unauthenticated peer are not used before the proof in its Hello has been checked.
// Parking: a connection with a genuine Hello waits while this process has, or attempts, another connection with that
// peer, or has not reported the end of one.  It waits until one of these events:
// * The end of the other connection is reported.  (The peer has reconnected, and the goodbye on the old connection
//   arrives later.  If the peer is gone from it without a trace, keepalive ends it after Config::peer_timeout.)
// * This process's own attempt fails, or this process calls connect(): the parked connection is then used.
// * The peer closes the parked one.  (If both sides connect, the connection of the lower PeerId stays: decide().)
// Owned by its module.  Threads: as the module.
#pragma once
#include <memory>
#include <vector>

#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/interfaces.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/wire.hpp"

namespace opal::btl::tcp {

class Incoming;
class Module;

class Acceptor final : public Source {
 public:
  /// What happens to a connection with a genuine Hello: accepted, parked (see above), or closed since
  /// it claims the PeerId of this Context.
  enum class Decision { accept, park, refuse };

  /// `key`: from the job's secret and this module's token; connectors prove that they know it.  `allowed`: connections
  /// to other local addresses are closed.
  Acceptor(Reactor& reactor, const Config& config, const PeerId& self, const Secret& key,
           std::vector<Interface> allowed, Module& owner);
  ~Acceptor() override;

  /// Closes the listening socket and all pending connections.
  void stop() noexcept;
  /// Accepts the oldest parked connection of `from` that the peer has not closed, if there is one.  Drops older
  /// ones.
  void unpark(const PeerId& from) noexcept;
  /// True while a connection of `from` is parked.
  [[nodiscard]] bool has_parked(const PeerId& from) const noexcept;

  void on_ready() noexcept override;
  void on_deadline() noexcept override;

 private:
  friend class Incoming;
  void take(Fd fd) noexcept;
  void on_hello(Incoming& incoming) noexcept;
  void accept(Incoming& incoming) noexcept;
  void drop(Incoming& incoming, const char* why) noexcept;

  const Config& config_;
  const PeerId self_;
  const Secret key_;
  const std::vector<Interface> allowed_;  // empty: all local addresses
  Module& owner_;
  std::vector<std::unique_ptr<Incoming>> incoming_;  // oldest first
};

}  // namespace opal::btl::tcp
