// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/dialer.hpp — connects to one peer.  It tries the peer's addresses in order.  While an
// address does not answer, it starts the next one after Config::stagger, in parallel.  It does the handshake on each
// connection and keeps the first with a genuine Welcome: a wrong address may belong to another program.
// After a failure that may be transient, such as a connection closed without an answer, it tries all addresses again,
// at most five times in all.  It gives up Config::connect_timeout after its start or its latest such failure, or, while
// a host has accepted a connection, welcome_timeout after its start.
// Owned by its endpoint.  It calls adopt() or on_unreachable() of the endpoint exactly once, inside Reactor::run(); the
// endpoint may destroy it in the call.
// Threads: as the module.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/address.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/wire.hpp"

namespace opal::btl::tcp {

class Attempt;
class Endpoint;

/// The parameters of the handshake.
struct HandshakeSides {
  PeerId from;             ///< this process
  PeerId to;               ///< the peer
  std::uint64_t max_send;  ///< largest message of this side, bytes
  Secret key;              ///< of all connections to the peer's module
};

class Dialer final : public Source {
 public:
  Dialer(Reactor& reactor, const Config& config, const HandshakeSides& sides, std::vector<SocketAddress> candidates,
         Endpoint& owner);
  ~Dialer() override;

  /// Starts with the first address.  Does not call the owner.
  void start() noexcept;
  /// Every address and its outcome, separated by "; ".  Allocates.
  [[nodiscard]] std::string describe() const;

  void on_ready() noexcept override {}
  void on_deadline() noexcept override;

 private:
  friend class Attempt;
  void start_next() noexcept;
  void end_of_pass() noexcept;
  void failed(Attempt& attempt, const Error& why, bool transient) noexcept;

  const Config& config_;
  const HandshakeSides sides_;
  const std::vector<SocketAddress> candidates_;
  std::vector<Error> outcomes_;  // by candidate; code 0: no outcome yet
  Endpoint& owner_;
  std::vector<std::unique_ptr<Attempt>> attempts_;  // in progress
  std::size_t next_ = 0;                            // the next candidate to try
  unsigned passes_ = 0;                             // complete ones, through all candidates
  bool some_transient_ = false;                     // this pass had a failure that may be transient
  std::uint64_t began_ns_ = 0;
  std::uint64_t give_up_ns_ = 0;
};

}  // namespace opal::btl::tcp
