// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/endpoint.hpp — one peer: the handshake, messages and their credits.
// States of the connector: dialing -> connected -> ended.  States of the acceptor: half_open (no Confirm yet) ->
// connected -> ended.  Posts return `again` before connected.
// After a failure (broken()) the transport first delivers all messages that have arrived, then ends the endpoint;
// if messages never pause, after Transport's kDrainTime.
// After disconnect() the endpoint remains (leaving_) until its messages and the goodbye are sent.
// Owned by the transport.  Threads: as the transport.
#pragma once
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/rdm/address.hpp"
#include "opal/btl/shared/rdm/send_buffers.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::rdm {

class Transport;

class OPAL_EXPORT Endpoint final : public btl::Endpoint {
 public:
  using Buffer = SendBuffer;
  enum class State : std::uint8_t { dialing, half_open, connected, ended };

  /// `to`: the peer's number in the network.  `slot`: its index at the transport.
  Endpoint(Transport& transport, const PeerId& peer, Address address, std::uint64_t to, std::uint32_t slot);

  /// Sends a Hello, and repeats it until the peer answers.
  void dial() noexcept;
  /// Answers the peer's Hello with a Welcome; ends this side's attempt to connect.  Requires: `hello` is genuine.
  void accept(const wire::Hello& hello) noexcept;
  /// True if accept() was called with this Hello.
  [[nodiscard]] bool has_accepted(const wire::Hello& hello) const noexcept {
    return state_ != State::dialing && nonce_ == hello.nonce;
  }
  /// Sends the Welcome again, for a Hello that was repeated.
  void repeat_welcome() noexcept { welcome_due_ = true; }

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint32_t key() const noexcept { return key_; }
  [[nodiscard]] std::uint64_t to() const noexcept { return to_; }
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] int process() const noexcept { return process_.get(); }
  void forget_process() noexcept { process_.reset(); }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool one_sided() const noexcept override;

  /// Requires: DeviceTransport has checked the message.
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// Sends the `size` bytes that follow the space for a frame in `buffer`.
  Post send_buffer(Tag tag, SendBuffer& buffer, std::size_t size) noexcept;

  void on_frame(const wire::Frame& frame, ByteSpan payload) noexcept;
  /// A send of this endpoint has completed; `why`: its error, with code 0 for success.
  void on_sent(const Error& why) noexcept;

  /// Records the first failure and sets broken(); the transport ends the endpoint after it has delivered what arrived.
  void break_off(const Error& why) noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Ends the endpoint for good: marks it dead and releases its slot.
  void end(const Error& why) noexcept;
  void end_with_reason() noexcept { end(reason_); }
  /// The peer sent what the protocol does not allow: tells it, and ends the endpoint.
  void on_protocol_error(const char* what, std::uint64_t detail) noexcept;

  /// Sends a goodbye.  True: the transport keeps the endpoint until left().
  bool leave(const Error& why) noexcept;
  [[nodiscard]] bool left() const noexcept { return state_ == State::ended; }

  /// Sends the frames that are due; see Transport::on_stalled().
  void resume() noexcept;
  /// When on_time() is to be called, in ns of now_ns(); 0: never.
  [[nodiscard]] std::uint64_t wake_ns() const noexcept;
  void on_time(std::uint64_t now) noexcept;

  /// Called for each genuine Hello of the same peer that waits for the end of this endpoint.  True: they have arrived
  /// for so long that the peer must have lost this connection.
  [[nodiscard]] bool superseded() noexcept;

  /// The network refused a put or get that the messages then did.  After many of them, one_sided() is false.
  void on_refused() noexcept;

  /// True if the layer above has the endpoint: from on_accepted() or connect().
  bool visible = false;

 private:
  [[nodiscard]] bool may_send() const noexcept {
    return credits_ != 0 && state_ == State::connected && !confirm_due_ && !broken_;
  }
  [[nodiscard]] wire::Frame frame_of(wire::Kind kind, std::size_t size) const noexcept;
  [[nodiscard]] Post post(SendBuffer& buffer, const wire::Frame& frame) noexcept;
  bool send_control(wire::Kind kind, ByteSpan first = {}, ByteSpan second = {}) noexcept;
  void send_hello() noexcept;
  void on_welcome(ByteSpan payload) noexcept;
  void on_confirm(ByteSpan payload) noexcept;
  void return_credits() noexcept;
  void ping(std::uint64_t now) noexcept;

  Transport& transport_;
  const Address address_;
  const std::uint64_t to_;
  const std::uint32_t slot_;
  const std::uint32_t key_;  // in each frame of the peer
  State state_ = State::dialing;
  bool broken_ = false;
  bool leaving_ = false;
  bool hello_due_ = false;  // a frame to send, for which no buffer was free
  bool welcome_due_ = false;
  bool confirm_due_ = false;  // it must be the first message, so others wait
  bool goodbye_due_ = false;
  bool frame_arrived_ = true;  // since the last ping()
  // Sending.
  std::uint32_t peer_slot_ = wire::kNoSlot;
  std::uint32_t peer_key_ = 0;
  std::uint32_t credits_ = 0;       // messages that may be sent now
  std::uint32_t most_credits_ = 0;  // the window that the peer has granted
  std::uint32_t pending_ = 0;       // sends without a completion
  // Receiving.
  std::uint32_t owed_ = 0;  // credits to return: messages taken since the last frame
  // Connecting.
  const Secret connector_key_;  // of Hellos to the peer
  Secret session_;
  Nonce nonce_{};  // of the Hello: own or accepted
  wire::Hello hello_{};
  wire::Welcome welcome_{};
  std::uint64_t give_up_ns_ = 0;     // deadline of the handshake, or of leaving
  std::uint64_t again_ns_ = 0;       // dialing: when to repeat the Hello; later: when to ping
  std::uint64_t stuck_ns_ = 0;       // since when pings find no room; 0: they do
  std::uint64_t superseded_ns_ = 0;  // of the first call of superseded(); 0: none
  std::uint32_t refusals_ = 0;       // see on_refused()
  Error reason_{};                   // of break_off()
  Fd process_;                       // pidfd of a peer on this host
};

}  // namespace opal::btl::rdm
