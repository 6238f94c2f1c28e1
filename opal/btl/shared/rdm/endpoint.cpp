// SPDX-License-Identifier: Apache-2.0
// Messages of an endpoint, their credits, and its end.  The handshake is in peers.cpp.
#include "opal/btl/shared/rdm/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/shared/rdm/transport.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::rdm {
namespace {

constexpr std::uint32_t kMostRefusals = 16;

/// Writes a message to `to`; fills the rest up to the message's size with zeros.
void compose(std::byte* to, const wire::Frame& frame, ByteSpan first, ByteSpan second) noexcept {
  std::memcpy(to, &frame, sizeof frame);
  std::byte* end = to + sizeof frame;
  end = std::copy(first.begin(), first.end(), end);
  end = std::copy(second.begin(), second.end(), end);
  std::fill(end, to + wire::message_size(frame.size), std::byte{});
}

}  // namespace

std::string Endpoint::describe() const {
  const char* const state = dead() ? "ended" : state_ == State::connected ? "connected" : "connecting";
  return fmt::format("{}: {}; put and get {}", transport_.describe_network(), state,
                     one_sided() ? "by the network" : "by messages");
}

bool Endpoint::one_sided() const noexcept { return transport_.native() && refusals_ < kMostRefusals; }

void Endpoint::on_refused() noexcept {
  if (++refusals_ != kMostRefusals) return;
  log::warn(transport_.log_name(), "peer {}: the network refuses valid puts and gets; OPAL moves them by messages",
            to_string(peer()));
}

// ---- Sending ----------------------------------------------------------------------------------------------------

wire::Frame Endpoint::frame_of(wire::Kind kind, std::size_t size) const noexcept {
  return {peer_slot_, peer_key_, static_cast<std::uint32_t>(size), 0, kind, static_cast<std::uint8_t>(owed_)};
}

Post Endpoint::post(SendBuffer& buffer, const wire::Frame& frame) noexcept {
  buffer.slot = slot_;
  buffer.key = key_;
  if (!transport_.transmit(*this, buffer, wire::message_size(frame.size))) return Post::again;
  ++pending_;
  owed_ = 0;
  if (frame.kind == wire::Kind::message) --credits_;
  return Post::done;
}

Post Endpoint::send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  if (!may_send()) return Post::again;
  wire::Frame frame = frame_of(wire::Kind::message, size);
  frame.tag = tag;
  const std::size_t whole = wire::message_size(size);
  if (whole <= transport_.inline_size()) {
    alignas(wire::Frame) std::array<std::byte, Transport::kMostInline> bytes;
    compose(bytes.data(), frame, header, payload);
    if (!transport_.transmit_inline(*this, {bytes.data(), whole})) return Post::again;
    --credits_;
    owed_ = 0;
    return Post::done;
  }
  SendBuffer* const buffer = transport_.send_buffers().take();
  if (buffer == nullptr) return Post::again;
  compose(buffer->data, frame, header, payload);
  const Post sent = post(*buffer, frame);
  if (sent != Post::done) transport_.send_buffers().give_back(*buffer);
  return sent;
}

Post Endpoint::send_buffer(Tag tag, SendBuffer& buffer, std::size_t size) noexcept {
  if (!may_send()) return Post::again;
  wire::Frame frame = frame_of(wire::Kind::message, size);
  frame.tag = tag;
  std::memcpy(buffer.data, &frame, sizeof frame);
  std::byte* const end = buffer.data + sizeof frame + size;
  std::fill(end, buffer.data + wire::message_size(size), std::byte{});
  return post(buffer, frame);
}

/// Control frames never go inline, since no on_sent() reports the failure of an inline message.
bool Endpoint::send_control(wire::Kind kind, ByteSpan first, ByteSpan second) noexcept {
  if (broken_) return false;
  SendBuffer* const buffer = transport_.send_buffers().take();
  if (buffer == nullptr) {
    transport_.on_stalled();
    return false;
  }
  const wire::Frame frame = frame_of(kind, first.size() + second.size());
  compose(buffer->data, frame, first, second);
  const bool sent = post(*buffer, frame) == Post::done;
  if (!sent) transport_.send_buffers().give_back(*buffer);
  return sent;
}

void Endpoint::return_credits() noexcept {
  if (state_ != State::connected || confirm_due_ || leaving_) return;
  if (owed_ < transport_.settings().window / 2 || owed_ == 0) return;
  (void)send_control(wire::Kind::credits);  // resume() tries again
}

void Endpoint::resume() noexcept {
  if (hello_due_) send_hello();
  if (welcome_due_) welcome_due_ = !send_control(wire::Kind::welcome, bytes_of(welcome_));
  if (confirm_due_) {
    wire::Confirm confirm{};
    sign(session_, confirm, bytes_of(welcome_));
    confirm_due_ = !send_control(wire::Kind::confirm, bytes_of(confirm));
    if (!confirm_due_) credits_ = most_credits_;
  }
  if (goodbye_due_) goodbye_due_ = !send_control(wire::Kind::goodbye);
  return_credits();
}

void Endpoint::on_sent(const Error& why) noexcept {
  if (pending_ != 0) --pending_;
  if (why.code != Errc{}) return break_off(why);
  if (leaving_ && !goodbye_due_ && pending_ == 0) end(error());
}

// ---- Receiving --------------------------------------------------------------------------------------------------

void Endpoint::on_protocol_error(const char* what, std::uint64_t detail) noexcept {
  const Error why{Errc::protocol, 0, what, detail};
  log::warn(transport_.log_name(), "peer {} broke the protocol: {}", to_string(peer()), opal::to_string(why));
  (void)send_control(wire::Kind::goodbye);
  end(why);
}

void Endpoint::on_frame(const wire::Frame& frame, ByteSpan payload) noexcept {
  frame_arrived_ = true;
  if (leaving_) {  // what the peer sends now is discarded, except its own goodbye
    if (frame.kind == wire::Kind::goodbye) end(error());
    return;
  }
  if (frame.kind == wire::Kind::welcome) return on_welcome(payload);
  if (frame.kind == wire::Kind::confirm) return on_confirm(payload);
  if (state_ != State::connected) return on_protocol_error("a message before the handshake has ended", 0);
  if (frame.credits > most_credits_ - credits_) {
    return on_protocol_error("more credits than there are", frame.credits);
  }
  credits_ += frame.credits;
  switch (frame.kind) {
    case wire::Kind::message:
      if (++owed_ > transport_.settings().window) return on_protocol_error("more messages than credits", owed_);
      transport_.deliver(*this, frame.tag, payload);
      return return_credits();
    case wire::Kind::credits:
    case wire::Kind::ping: return;
    case wire::Kind::goodbye: return end({Errc::peer_gone, 0, "the peer has disconnected"});
    default: return on_protocol_error("unknown kind of frame", static_cast<std::uint64_t>(frame.kind));
  }
}

// ---- Ends -------------------------------------------------------------------------------------------------------

void Endpoint::break_off(const Error& why) noexcept {
  if (broken_ || state_ == State::ended) return;
  broken_ = true;
  reason_ = why;
  if (state_ == State::dialing) reason_.code = Errc::unreachable;
  transport_.on_broken();
}

void Endpoint::end(const Error& why) noexcept {
  if (state_ == State::ended) return;
  // A failure may be of this side alone, and a connector that has the Welcome takes itself for connected.
  const bool untold = std::exchange(broken_, false) || state_ == State::half_open;
  if (untold && state_ != State::dialing && !welcome_due_) (void)send_control(wire::Kind::goodbye);
  state_ = State::ended;
  broken_ = false;
  if (!leaving_) mark_dead(why);
  transport_.release(slot_, process_, pending_);
  if (!leaving_) transport_.on_ended(*this);
}

bool Endpoint::leave(const Error& why) noexcept {
  const bool talking = state_ == State::connected && !broken_ && !confirm_due_;
  mark_dead(why);
  if (!talking) {
    leaving_ = true;
    end(why);
    return false;
  }
  leaving_ = true;
  goodbye_due_ = !send_control(wire::Kind::goodbye);
  give_up_ns_ = transport_.time_after(kCloseTimeout);
  return true;
}

// ---- Time -------------------------------------------------------------------------------------------------------

bool Endpoint::superseded() noexcept {
  const std::uint64_t now = now_ns();
  if (superseded_ns_ == 0) superseded_ns_ = now;
  const auto limit = std::chrono::nanoseconds{transport_.settings().superseded_timeout};
  return now - superseded_ns_ > static_cast<std::uint64_t>(limit.count());
}

std::uint64_t Endpoint::wake_ns() const noexcept {
  switch (state_) {
    case State::dialing:
    case State::half_open: return std::min(again_ns_, give_up_ns_);
    case State::connected: return leaving_ ? give_up_ns_ : again_ns_;
    default: return 0;
  }
}

void Endpoint::ping(std::uint64_t now) noexcept {
  again_ns_ = transport_.time_after(transport_.settings().ping_interval);
  // A send in flight replaces the ping: its completion shows whether the network reaches the peer.
  if (std::exchange(frame_arrived_, false) || pending_ != 0 || (!welcome_due_ && send_control(wire::Kind::ping))) {
    stuck_ns_ = 0;
    return;
  }
  if (stuck_ns_ == 0) stuck_ns_ = now;
  const auto limit = std::chrono::nanoseconds{transport_.settings().connect_timeout};
  if (now - stuck_ns_ < static_cast<std::uint64_t>(limit.count())) return;
  break_off({Errc::peer_gone, ETIMEDOUT, "the network does not reach the peer any more"});
}

void Endpoint::on_time(std::uint64_t now) noexcept {
  if (state_ == State::connected && !leaving_) {
    if (now >= again_ns_) ping(now);
    return;
  }
  if (now >= give_up_ns_) {
    if (leaving_) return end(error());
    log::warn(transport_.log_name(), "peer {}: the handshake timed out", to_string(peer()));
    return end({Errc::unreachable, ETIMEDOUT, "the handshake timed out"});
  }
  if (now < again_ns_) return;
  if (state_ == State::dialing) return send_hello();
  if (state_ == State::half_open) ping(now);
}

}  // namespace opal::btl::rdm
