// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/dialer.hpp — finds a way to one peer: tries its addresses in order, starts the next one
// beside a silent one after Config::stagger, says Hello on each that answers, and takes the first that says Welcome.
// The handshake, not the connection, decides: another program behind a wrong address does not know the peer's identity.
// Owned by its endpoint, which is told of the end exactly once, from inside the reactor, and then destroys it.
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

/// Both sides of the handshake, and its key.
struct HandshakeSides {
  PeerId from;
  PeerId to;
  std::uint64_t max_send;
  Secret key;
};

class Dialer final : public Source {
 public:
  /// The user of the connection.  Each call ends the dialer's work; it may be destroyed inside.
  class Owner {
   public:
    virtual void on_connected(Fd fd, std::uint32_t peer_max_send) noexcept = 0;
    virtual void on_unreachable(const Error& why) noexcept = 0;

   protected:
    ~Owner() = default;
  };

  Dialer(Reactor& reactor, const Config& config, const HandshakeSides& sides, std::vector<SocketAddress> candidates,
         Owner& owner);
  ~Dialer() override;

  /// Starts with the first address.  Never calls the owner back.
  void start() noexcept;
  /// Every address and what came of it, one per line.
  [[nodiscard]] std::string describe() const;

  void on_ready() noexcept override {}
  void on_deadline() noexcept override;

 private:
  friend class Attempt;
  void start_next() noexcept;
  void end_of_round() noexcept;
  void welcomed(Attempt& attempt, std::uint64_t peer_max_send) noexcept;
  void failed(Attempt& attempt, const Error& why, bool may_come_again) noexcept;

  const Config& config_;
  const HandshakeSides sides_;
  const std::vector<SocketAddress> candidates_;
  std::vector<Error> outcomes_;  // by candidate; code 0: nothing heard yet
  Owner& owner_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::size_t next_ = 0;  // candidate
  unsigned rounds_ = 0;
  bool worth_another_round_ = false;
  std::uint64_t began_ns_ = 0;
  std::uint64_t give_up_ns_ = 0;
};

}  // namespace opal::btl::tcp
