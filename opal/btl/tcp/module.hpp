// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/module.hpp — TCP between any two processes that share a network: one listening socket, one connection
// per peer, made on demand, everything non-blocking on one epoll instance.
// Two sides that connect to each other at once end with one connection: the one that the side with the lower PeerId
// made.  put/get/atomics run over messages (rdma_emulation.hpp).
// A peer's disconnect reaches us as on_failed with peer_gone "the peer has disconnected" and no line in the log; its
// death as peer_gone with the errno.  Either way the endpoint is dead, and the peer may come back on a new one.
// Threads: as btl::Module.
#pragma once
#include <memory>
#include <vector>

#include "opal/btl/listening.hpp"
#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/acceptor.hpp"
#include "opal/btl/tcp/connections/interfaces.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/endpoint.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint>, public Listening, private Acceptor::Owner {
 public:
  /// Errors: invalid_argument (if_include, if_exclude), unreachable (no interface is left), limit_reached (no port),
  /// no_memory, os.
  static Result<std::unique_ptr<Module>> open(const Host& host, const Config& config);
  /// Brings out what was posted, for at most kCloseTimeout.
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  Result<void> listen_only_at(const sockaddr& address) override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;
  Fragment prepare_src(btl::Endpoint& to, ByteSpan header, ByteSpan payload, Completion& completion) noexcept override;
  Post send(Fragment& fragment, Tag tag) noexcept override;

  [[nodiscard]] int wait_fd() const noexcept override { return reactor_.wait_fd(); }

 private:
  friend class Endpoint;
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left(); }
  void end_operations(Endpoint& endpoint, const Error& why) noexcept override;
  void on_vacant(const PeerId& peer) noexcept override { unpark(peer); }
  void close_in_child() noexcept override { reactor_.close_in_child(); }
  Module(const Host& host, const Config& config, Reactor reactor, const Nonce& token, std::vector<Interface> allowed);

  Acceptor::Verdict judge(const PeerId& from) noexcept override;
  void on_connection(const PeerId& from, Fd fd, std::uint32_t peer_max_send) noexcept override;
  void on_overdue(const PeerId& from) noexcept override;

  // For endpoints.
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// False when this progress() has run enough handlers.
  [[nodiscard]] bool may_deliver() const noexcept { return turns_ != 0; }
  void deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept;
  void count_event() noexcept { ++events_; }
  void ended(Endpoint& endpoint) noexcept;
  [[nodiscard]] bool has_parked(const PeerId& peer) const noexcept { return acceptor_.has_parked(peer); }
  void unpark(const PeerId& peer) noexcept { acceptor_.unpark(peer); }

  /// Asking the kernel costs as much as several messages through shared memory: where it has had nothing for a while,
  /// it is asked only now and then.
  bool worth_asking() noexcept;
  void linger() noexcept;
  /// Receives from the connection that is likely to bring the next message; true when that is enough for now.
  bool poll_hot() noexcept;

  const Config config_;
  Reactor reactor_;  // before everything that has a Source in it
  std::vector<std::byte> address_;
  Acceptor acceptor_;
  std::uint32_t quiet_ = 0;  // rounds in a row in which the kernel had nothing
  std::uint32_t skip_ = 0;   // rounds in which it is not asked
  std::size_t turns_ = 0;    // handlers that this progress() may still run
  std::size_t events_ = 0;   // what happened in this progress()
  Endpoint* hot_ = nullptr;  // brought the last message
  unsigned polls_ = 0;
  std::uint64_t host_number_ = 0;
};

}  // namespace opal::btl::tcp
