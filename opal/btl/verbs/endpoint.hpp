// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/endpoint.hpp — one peer: connection setup, messages and their credits.
// States of the connector: dialing <-> resting (refused; dials again later) -> connected -> ended.
// States of the acceptor: half_open (no `confirm` yet) -> connected -> ended.  Posts return `again` before connected.
// After a failure (broken()) the module first delivers all messages that have arrived, then ends the endpoint.
// After disconnect() the endpoint remains (leaving_) until the peer's device has acknowledged the goodbye.
// Requests are collected and posted with one doorbell between begin_batch() and end_batch(), and those of one
// progress() after the first. Owned by the module.  Threads: as the module.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/fragment.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/tag.hpp"
#include "opal/btl/verbs/connections/connection.hpp"
#include "opal/btl/verbs/device/buffers.hpp"
#include "opal/btl/verbs/one_sided_queue.hpp"
#include "opal/btl/verbs/request_list.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::verbs {

class Module;

class OPAL_EXPORT Endpoint final : public btl::Endpoint, public Connection::Owner {
 public:
  using Buffer = verbs::Buffer;
  enum class State : std::uint8_t { dialing, resting, half_open, connected, ended };

  /// Receive buffers of a peer in addition to its window: for one confirm, two frames of credits, one goodbye, one
  /// `more` and one `grant`, and the buffer that a handler reads, whose credit may have been returned already.  iWARP
  /// ends a connection if a message finds no buffer, so each peer has them there.  Other devices repeat such a message:
  /// there these frames use buffers of any window.
  static constexpr std::uint32_t kReserve = 7;
  /// Send requests that the queue pair needs for a peer whose largest window is `window`.
  static std::uint32_t sends_for(std::uint32_t window) noexcept;

  /// `window`: receive buffers that the module keeps for this peer.
  Endpoint(Module& module, const PeerId& peer, std::uint32_t window);
  ~Endpoint() override;

  /// Starts connecting to the peer at `to`; `key`: of message connections to the peer.  Errors: unreachable, os.
  Result<void> dial(const SocketAddress& to, const Secret& key);
  /// Accepts the peer's request and ends an own attempt to connect.  Requires: the proof of `request` is right.
  /// Errors: limit_reached, os; then the request is unanswered and `id` stays with the caller.
  Result<void> accept(CmId& id, const CmEvent& event, const wire::Request& request, const Secret& key);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  [[nodiscard]] bool searching() const noexcept { return state_ == State::dialing || state_ == State::resting; }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool one_sided() const noexcept override;

  /// The queue of puts, gets and atomics, created on the first call; null: these must be emulated by messages.
  [[nodiscard]] OneSidedQueue* one_sided_queue() noexcept;
  /// Retries what found no room; see Module::on_stalled().
  void resume() noexcept;
  /// Makes the module call post_collected() at the end of the batch or in the next progress().
  void hold() noexcept;
  /// Posts the requests that have been collected, also those of the one-sided queue.
  void post_collected() noexcept;
  /// Destroys that queue; the module then completes the operations.
  void drop_one_sided_queue() noexcept;
  /// Accepts the connection of the peer's one-sided queue.  False: the request is not genuine, or there is no room.
  bool serve(CmId& id, const CmEvent& event, const wire::Request& request) noexcept;

  // For the one-sided queue.
  [[nodiscard]] const Secret& session() const noexcept { return session_; }
  [[nodiscard]] const SocketAddress& peer_socket() const noexcept { return to_; }
  [[nodiscard]] Connection::Settings settings() const noexcept;

  /// Requires: DeviceTransport has checked the message.
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// Sends the `size` bytes that follow the space for a frame in `buffer`.
  Post send_buffer(Tag tag, Buffer& buffer, std::size_t size) noexcept;

  /// Records the first failure and sets broken(); the module ends the endpoint after it has delivered what arrived.
  void break_off(const Error& why) noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Ends the endpoint for good: marks it dead and closes the connection.
  void end(const Error& why) noexcept;

  void end_with_reason() noexcept { end(reason_); }

  /// Sends a goodbye.  True: the module keeps the endpoint until left().  False: no peer is connected, nothing to wait
  /// for.
  bool leave(const Error& why) noexcept;
  [[nodiscard]] bool left() const noexcept { return state_ == State::ended; }

  /// When on_time() is to be called, in ns of now_ns(); 0: never.
  [[nodiscard]] std::uint64_t wake_ns() const noexcept;
  void on_time(std::uint64_t now) noexcept;

  /// Called for each genuine request of the same peer while this connection exists.  True: such requests have arrived
  /// for so long that this connection must be dead.
  bool superseded() noexcept;

  void on_sent(const ibv_wc& wc) noexcept override;
  void on_received(ByteSpan bytes) noexcept override;

  /// True if the layer above has the endpoint: from on_accepted() or connect().
  bool visible = false;

 private:
  void on_connected(ByteSpan reply) noexcept override;
  void on_refused(ByteSpan refusal) noexcept override;
  void on_lost(const Error& why) noexcept override;

  Result<void> dial_again();
  void drop_connection() noexcept;
  void rest(std::uint64_t ns) noexcept;
  [[nodiscard]] bool may_send() noexcept;
  [[nodiscard]] std::uint32_t room() const noexcept {
    return static_cast<std::uint32_t>(sent_.size()) - (posted_ - retired_);
  }
  bool post(ibv_send_wr& request, Buffer* buffer) noexcept;
  /// Posts the list from `first` to `last` with one doorbell; its last request is signalled if that is due.
  bool submit(ibv_send_wr& first, ibv_send_wr& last) noexcept;
  void collect(const ibv_send_wr& request) noexcept;
  void post_messages() noexcept;
  bool send_control(wire::Kind kind, ByteSpan payload) noexcept;
  bool send_frame(const wire::Frame& frame, ByteSpan payload) noexcept;
  void return_credits() noexcept;
  void confirm() noexcept;
  void ask_for_more() noexcept;
  [[gnu::cold]] void grant_more() noexcept;
  void take_grant(std::uint32_t count) noexcept;
  void retire(std::uint32_t upto) noexcept;
  void take_credits(std::uint32_t count) noexcept;
  void on_protocol_error(const char* what, std::uint64_t detail) noexcept;

  /// Keeps an own request that was abandoned for the peer's crossing request until the peer has answered it.  Over
  /// iWARP destroying its identifier earlier blocks in the kernel until then, which is a deadlock if the peer does the
  /// same.
  class Crossed final : private Connection::Owner {
   public:
    void take(std::unique_ptr<Connection> connection) noexcept {
      connection_ = std::move(connection);
      connection_->hand_over(this);
    }

   private:
    void on_connected(ByteSpan /*reply*/) noexcept override { connection_.reset(); }
    void on_refused(ByteSpan /*refusal*/) noexcept override { connection_.reset(); }
    void on_lost(const Error& /*why*/) noexcept override { connection_.reset(); }
    std::unique_ptr<Connection> connection_;
  };

  Module& verbs_;
  State state_ = State::resting;  // also of a new endpoint, before dial() or accept()
  bool broken_ = false;
  bool leaving_ = false;
  bool confirm_due_ = false;  // connector: the `confirm` is not sent yet and must be the first message
  std::unique_ptr<Connection> connection_;
  Crossed crossed_;
  // Sending.
  std::uint32_t credits_ = 0;               // messages that may be sent now
  std::uint32_t most_credits_ = 0;          // the window that the peer has granted
  std::uint32_t ask_from_ = 0;              // value of posted_ from which a larger window may be requested (`more`)
  std::uint32_t posted_ = 0;                // number of posted send requests, modulo 2^32
  std::uint32_t retired_ = 0;               // number of those known to have ended, modulo 2^32
  std::uint32_t unsignalled_ = 0;           // requests posted since the last signalled one
  bool holds_buffers_ = false;              // one of these has a buffer, which its completion frees
  std::uint64_t last_round_ = 0;            // Module::round() of the last request
  bool held_ = false;                       // the module knows that requests are collected
  std::unique_ptr<RequestList> collected_;  // null: none so far
  std::vector<Buffer*> sent_;               // by number of the request modulo size: its buffer, or null
  // Receiving.
  std::uint32_t window_;        // receive buffers for this peer without kReserve
  std::uint32_t owed_ = 0;      // credits to return: messages taken since the last frame
  std::uint32_t to_grant_ = 0;  // part of window_ that no `grant` has announced yet
  // One-sided.
  std::unique_ptr<OneSidedQueue> queue_;
  std::unique_ptr<Connection> served_;  // the target's end of the peer's one-sided queue; the device does all the work
  std::uint64_t served_number_ = 0;     // number of the request that made served_
  // Connecting.
  SocketAddress to_{};
  Secret key_;
  wire::Request request_{};  // of the connector
  Secret session_;
  std::uint64_t give_up_ns_ = 0;     // deadline of the connection setup
  std::uint64_t again_ns_ = 0;       // resting: when to dial again
  std::uint64_t superseded_ns_ = 0;  // when the peer's first request for a new connection arrived; 0: none
  std::uint32_t goodbye_ = 0;        // number of the goodbye's send request
  Error reason_{};                   // of break_off()
  std::string where_;                // for describe()
};

}  // namespace opal::btl::verbs
