// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/module.hpp — the tcp transport: one listening socket, and one connection per peer, made by connect().
// All sockets are non-blocking and watched by one epoll instance.  put, get and atomics are emulated
// (rdma_emulation.hpp).
// If both sides connect at the same time, the connection that the side with the lower PeerId made stays.
// on_failed() reports a peer's disconnect as peer_gone "the peer has disconnected", and its death as peer_gone with an
// errno.  The peer may connect again, which makes a new endpoint.  Threads: as btl::Module.
#pragma once
#include <memory>
#include <vector>

#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/tcp/acceptor.hpp"
#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/interfaces.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/endpoint.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint> {
 public:
  /// Errors: invalid_argument (if_include, if_exclude), unreachable (no interface is left), limit_reached (no port),
  /// no_memory, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  /// Sends what was posted and waits for its acknowledgement, for at most kCloseTimeout.  Drops messages on an endpoint
  /// that is still dialing.
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  Result<void> listen_only_at(const sockaddr& address) override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;
  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept override;

  void begin_batch() noexcept override {
    if (batches_++ == 0) ++batch_;
  }
  void end_batch() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return reactor_.wait_fd(); }

 private:
  friend class Endpoint;
  friend class Acceptor;
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left(); }
  void on_vacant(const PeerId& peer) noexcept override { acceptor_.unpark(peer); }
  void close_in_child() noexcept override { reactor_.close_in_child(); }
  Module(const ModuleParameters& parameters, const Config& config, Waiting waiting, const Nonce& token,
         std::vector<Interface> allowed);

  // For the Acceptor, inside Reactor::run() or Acceptor::unpark().
  Acceptor::Decision decide(const PeerId& from) noexcept;
  /// The connection is accepted and its Welcome was sent.  `peer_max_send`: Hello::max_send.
  void on_connection(const PeerId& from, Fd fd, std::uint32_t peer_max_send) noexcept;

  // For tcp::Endpoint, which also uses acceptor_, turns_ and events_.
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  void deliver(Endpoint& from, Delivery& delivery) noexcept;
  /// True when short messages may be held back: in a batch, and while progress() receives.
  [[nodiscard]] bool holds_back() const noexcept { return batches_ != 0; }
  /// The number of the last batch.
  [[nodiscard]] std::uint64_t batch() const noexcept { return batch_; }
  /// Makes the end of the batch call release() of `endpoint`.  drop_held() undoes it.
  void hold(Endpoint& endpoint) { held_.push_back(&endpoint); }
  void drop_held(Endpoint& endpoint) noexcept { std::erase(held_, &endpoint); }
  void ended(Endpoint& endpoint) noexcept;

  void release_held() noexcept;
  /// True when this round should poll the kernel.  A poll costs as much as several messages through shared memory, so
  /// after 32 rounds without an event rounds are skipped, up to 16 in a row (256 without endpoints).
  bool worth_polling() noexcept;
  /// Waits until the other hosts have acknowledged all data, for at most kCloseTimeout.
  void linger() noexcept;
  /// Receives from the connection of the latest message.  True: this round need not collect events of the others.
  bool poll_hot() noexcept;

  const Config config_;
  Reactor reactor_;  // before all members that are or own a Source
  std::vector<std::byte> address_;
  Acceptor acceptor_;
  std::uint32_t empty_polls_ = 0;  // of the kernel, in a row
  std::uint32_t skip_ = 0;         // rounds still to skip, see worth_polling()
  std::size_t turns_ = 0;          // handlers that the current progress() may still run
  std::size_t events_ = 0;         // events of the current progress()
  std::size_t batches_ = 0;        // open batches; a receive() counts as one
  std::uint64_t batch_ = 0;        // number of times that batches_ has become 1
  std::vector<Endpoint*> held_;    // endpoints that hold back messages
  Endpoint* hot_ = nullptr;        // endpoint of the latest message; null: none
  unsigned polls_ = 0;             // of hot_
  std::uint64_t host_number_ = 0;  // of this process's network namespace
};

}  // namespace opal::btl::tcp
