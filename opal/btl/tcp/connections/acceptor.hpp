// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/acceptor.hpp — the listening socket, and unauthenticated connections.
// A connection costs a descriptor and ~250 bytes until its Hello has proved to be genuine; Config::max_pending bounds
// them.
// Parking: a connection with a genuine Hello waits while this process has, or attempts, another connection with that
// peer: until that one has ended (the peer reconnects: its new connection overtook the goodbye on the old one), or
// until the peer closes this one (both sides had connected at the same time; the module decides which one stays). Owned
// by its module. Nothing an unauthenticated peer sends is used before its proof is checked.
#pragma once
#include <memory>
#include <vector>

#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/interfaces.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/wire.hpp"

namespace opal::btl::tcp {

class Incoming;

class Acceptor final : public Source {
 public:
  enum class Verdict { accept, park, refuse };

  /// Decides on connections.  All calls come from inside the reactor.
  class Owner {
   public:
    virtual Verdict judge(const PeerId& from) noexcept = 0;
    /// The connection is accepted, and its Welcome is sent.
    virtual void on_connection(const PeerId& from, Fd fd, std::uint32_t peer_max_send) noexcept = 0;
    /// A connection has been parked for Config::handshake_timeout, and the peer has not closed it.  Called again after
    /// each further timeout.  The owner may end the older connection, or call unpark().
    virtual void on_overdue(const PeerId& from) noexcept = 0;

   protected:
    ~Owner() = default;
  };

  /// `key` is what connectors must prove to know.
  Acceptor(Reactor& reactor, const Config& config, const PeerId& self, const Secret& key,
           std::vector<Interface> allowed, Owner& owner);
  ~Acceptor() override;

  /// Closes everything; accepts no connection any more.
  void stop() noexcept;
  /// Accepts the oldest parked connection of `from` that the peer has not closed, if there is one.
  void unpark(const PeerId& from) noexcept;
  [[nodiscard]] bool has_parked(const PeerId& from) const noexcept;
  [[nodiscard]] std::size_t pending() const noexcept { return incoming_.size(); }

  void on_ready() noexcept override;
  void on_deadline() noexcept override;

 private:
  friend class Incoming;
  void take(Fd fd) noexcept;
  void on_hello(Incoming& incoming) noexcept;
  void let_in(Incoming& incoming) noexcept;
  void drop(Incoming& incoming, const char* why) noexcept;

  const Config& config_;
  const PeerId self_;
  const Secret key_;
  const std::vector<Interface> allowed_;  // empty: every local address
  Owner& owner_;
  std::vector<std::unique_ptr<Incoming>> incoming_;  // oldest first
};

}  // namespace opal::btl::tcp
