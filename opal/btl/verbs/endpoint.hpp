// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/endpoint.hpp — one peer: the way to a connection, the connection's messages, their credits.
// States: dialing <-> resting (refused for now) -> connected -> ended; accepted: half_open -> connected.  Posts answer
// `again` before connected.  A failure seen on one queue ends the endpoint only when everything that had arrived
// before has been handed up: broken() is what the module acts on when the completion queue is empty.
// leaving: disconnect() was called and the endpoint has no user any more; it waits for the goodbye's acknowledgement.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/fragment.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/btl/verbs/connections/connection.hpp"
#include "opal/btl/verbs/connections/handshake.hpp"
#include "opal/btl/verbs/device/buffers.hpp"
#include "opal/btl/verbs/one_sided_queue.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::verbs {

class Module;

class OPAL_EXPORT Endpoint final : public btl::Endpoint, public Connection::Owner {
 public:
  enum class State : std::uint8_t { dialing, resting, half_open, connected, ended };

  /// Receive buffers of a peer beside its window: for a confirmation, two frames of credits, a goodbye, one that asks
  /// for a larger window and one that grants it; and the buffer in a handler's hands, whose credit may be back already.
  /// iWARP ends a connection whose message finds no buffer.
  static constexpr std::uint32_t kReserve = 7;
  /// Send requests for a peer whose window is at most so large.
  static std::uint32_t sends_for(std::uint32_t window) noexcept;

  /// `window`: receive buffers that the module keeps for this peer.
  Endpoint(Module& module, const PeerId& peer, std::uint32_t window);
  ~Endpoint() override;

  /// Starts looking for the peer at `to`.  Errors: unreachable, os.
  Result<void> dial(const SocketAddress& to, const Secret& key);
  /// Goes on with the peer's own request, whose proof was right; ends the own search, if any.  Errors: limit_reached,
  /// os; the request is unanswered then.
  Result<void> accept(CmId& id, const CmEvent& event, const wire::Request& request, const Secret& key);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  [[nodiscard]] bool searching() const noexcept { return state_ == State::dialing || state_ == State::resting; }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool one_sided() const noexcept override;

  /// The queue of puts, gets and atomics; null where they have to go as messages.
  [[nodiscard]] OneSidedQueue* one_sided_queue() noexcept;
  /// Tries again what found no room.
  void resume() noexcept;
  /// Ends it; operations are the module's to finish.
  void drop_one_sided_queue() noexcept;
  /// The same queue's other end, asked for by the peer.  False: the request is not the peer's, or there is no room.
  bool serve(CmId& id, const CmEvent& event, const wire::Request& request) noexcept;

  // For the one-sided queue.
  [[nodiscard]] const Secret& session() const noexcept { return session_; }
  [[nodiscard]] const SocketAddress& peer_socket() const noexcept { return to_; }
  [[nodiscard]] Connection::Settings settings() const noexcept;

  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// `buffer` has room for a frame, then `size` bytes.
  Post send_buffer(Tag tag, Buffer& buffer, std::size_t size) noexcept;

  /// Something failed; the module ends the endpoint when all that arrived before was handed up.
  void break_off(const Error& why) noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Ends the endpoint for good: marks it dead and closes the connection.
  void end(const Error& why) noexcept;

  void end_with_reason() noexcept { end(reason_); }

  /// Says goodbye; false when no peer is connected, or there is nothing to wait for.
  bool leave(const Error& why) noexcept;
  [[nodiscard]] bool left() const noexcept { return state_ == State::ended; }

  /// What has to happen at some time: 0 for nothing.
  [[nodiscard]] std::uint64_t wake_ns() const noexcept;
  void on_time(std::uint64_t now) noexcept;

  /// A genuine request of the same peer has come although this connection stands; true when it has come for so long
  /// that this one must be dead.
  bool superseded() noexcept;

  void on_sent(const ibv_wc& wc) noexcept override;
  void on_received(ByteSpan bytes) noexcept override;

  /// on_accepted has been called for it, or connect() has returned it.
  bool known = false;

 private:
  void on_connected(ByteSpan reply) noexcept override;
  void on_refused(ByteSpan refusal) noexcept override;
  void on_lost(const Error& why) noexcept override;

  Result<void> dial_again();
  void drop_connection() noexcept;
  void rest(std::uint64_t ns) noexcept;
  [[nodiscard]] Post refuse_if_unsendable(std::size_t size) noexcept;
  [[nodiscard]] std::uint32_t room() const noexcept {
    return static_cast<std::uint32_t>(sent_.size()) - (posted_ - retired_);
  }
  bool post(ibv_send_wr& request, Buffer* buffer) noexcept;
  bool send_control(wire::Kind kind, ByteSpan payload) noexcept;
  bool send_frame(const wire::Frame& frame, ByteSpan payload) noexcept;
  void return_credits() noexcept;
  void confirm() noexcept;
  void ask_for_more() noexcept;
  void grant_more() noexcept;
  void take_grant(std::uint32_t count) noexcept;
  void retire(std::uint32_t upto) noexcept;
  void take_credits(std::uint32_t count) noexcept;
  void break_protocol(const char* what, std::uint64_t detail) noexcept;

  /// The peer's one-sided queue as it ends here: the device does all the work.
  class Served final : private Connection::Owner {
   public:
    Served(Device& device, const Connection::Settings& settings) noexcept
        : connection(device, settings, static_cast<Connection::Owner&>(*this)) {}
    Connection connection;

   private:
    void on_connected(ByteSpan /*reply*/) noexcept override {}
    void on_refused(ByteSpan /*refusal*/) noexcept override {}
    void on_lost(const Error& /*why*/) noexcept override {}  // its initiator makes a new one, if it lives
  };

  /// Our own request, given up for the peer's.  Over iWARP its identifier can be destroyed only when the peer has
  /// answered it; earlier the kernel makes us wait for that, and the peer may be waiting for us.
  class Crossed final : private Connection::Owner {
   public:
    void take(std::unique_ptr<Connection> connection) noexcept {
      connection_ = std::move(connection);
      connection_->hand_over(*this);
    }

   private:
    void on_connected(ByteSpan /*reply*/) noexcept override { connection_.reset(); }
    void on_refused(ByteSpan /*refusal*/) noexcept override { connection_.reset(); }
    void on_lost(const Error& /*why*/) noexcept override { connection_.reset(); }
    std::unique_ptr<Connection> connection_;
  };

  Module& verbs_;
  State state_ = State::resting;
  bool broken_ = false;
  bool leaving_ = false;
  bool to_confirm_ = false;  // the connector: nothing may go before the confirmation
  std::unique_ptr<Connection> connection_;
  Crossed crossed_;
  // Sending.
  std::uint32_t credits_ = 0;       // messages that the peer has room for
  std::uint32_t most_credits_ = 0;  // its window
  std::uint32_t ask_from_ = 0;      // number of the request from which on a larger one may be asked for
  std::uint32_t posted_ = 0;        // send requests, counted round
  std::uint32_t retired_ = 0;       // those of them that are known to have ended
  std::uint32_t unsignalled_ = 0;   // posted since the last that asks for a completion
  std::vector<Buffer*> sent_;       // by number of the request: its buffer, or null
  // Receiving.
  std::uint32_t window_;
  std::uint32_t owed_ = 0;      // messages taken, of which the peer has not been told
  std::uint32_t to_grant_ = 0;  // of the window, of which it has not been told either
  // One-sided.
  std::unique_ptr<OneSidedQueue> queue_;
  std::unique_ptr<Served> served_;
  std::uint64_t served_number_ = 0;  // of its request
  // Connecting.
  SocketAddress to_{};
  Secret key_;
  wire::Request request_{};  // of the connector
  Secret session_;
  std::uint64_t give_up_ns_ = 0;
  std::uint64_t again_ns_ = 0;       // resting: when to dial
  std::uint64_t superseded_ns_ = 0;  // since when the peer asks for a new connection
  std::uint32_t goodbye_ = 0;        // number of its request
  Error reason_{};                   // of break_off
  std::string where_;                // for describe()
};

}  // namespace opal::btl::verbs
