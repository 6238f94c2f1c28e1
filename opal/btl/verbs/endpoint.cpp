// SPDX-License-Identifier: Apache-2.0
// An endpoint's messages: sending, credits, receiving.  Its connection setup is in peers.cpp.
#include "opal/btl/verbs/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "opal/btl/verbs/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::verbs {
namespace {

/// Every 16th send is signalled, and the last one that is posted at a time if a buffer waits for its completion.
constexpr std::uint32_t kUnsignalled = 16;

/// Send requests reserved for control frames.
constexpr std::uint32_t kControlRoom = 8;

/// Messages between two requests for a larger window, since the peer may have had no room for the first.
constexpr std::uint32_t kAskEvery = 1024;

ibv_sge piece_of(const void* data, std::size_t size, std::uint32_t key = 0) noexcept {
  return {reinterpret_cast<std::uint64_t>(data), static_cast<std::uint32_t>(size), key};
}

ibv_send_wr request_of(std::span<ibv_sge> pieces) noexcept {
  ibv_send_wr request{};
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  request.opcode = IBV_WR_SEND;
  return request;
}

}  // namespace

std::uint32_t Endpoint::sends_for(std::uint32_t window) noexcept {
  // The completion of a signalled send is under way before the room for messages is used up.
  return std::max(window, 2 * kUnsignalled) + 2 * kControlRoom;
}

// ---- Sending ----------------------------------------------------------------------------------------------------

bool Endpoint::may_send() noexcept {
  if (credits_ != 0 && room() > kControlRoom && state_ == State::connected && !broken_) return true;
  ask_for_more();
  return false;
}

bool Endpoint::submit(ibv_send_wr& first, ibv_send_wr& last) noexcept {
  if (holds_buffers_ || unsignalled_ >= kUnsignalled) last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(connection_->pair(), &first, &bad); code != 0) [[unlikely]] {
    break_off({Errc::peer_gone, code, "ibv_post_send"});
    return false;
  }
  if ((last.send_flags & IBV_SEND_SIGNALED) != 0) {
    unsignalled_ = 0;
    holds_buffers_ = false;
  }
  return true;
}

bool Endpoint::post(ibv_send_wr& request, Buffer* buffer) noexcept {
  request.wr_id = posted_;
  ++unsignalled_;
  holds_buffers_ = holds_buffers_ || buffer != nullptr;
  // The first one of a progress() leaves at once: it may be the answer for which the peer waits.
  const std::uint64_t before = std::exchange(last_round_, verbs_.round());
  if (verbs_.in_batch() || (last_round_ != 0 && last_round_ == before)) {
    collect(request);
  } else if (!submit(request, request)) {
    return false;
  }
  sent_[posted_ % sent_.size()] = buffer;
  ++posted_;
  if (collected_ != nullptr && collected_->full()) post_messages();
  return true;
}

void Endpoint::collect(const ibv_send_wr& request) noexcept {
  if (collected_ == nullptr) collected_ = std::make_unique<RequestList>();
  collected_->add(request);
  hold();
}

void Endpoint::hold() noexcept {
  if (!std::exchange(held_, true)) verbs_.add_holder(*this);
}

void Endpoint::post_collected() noexcept {
  if (!std::exchange(held_, false)) return;
  verbs_.remove_holder(*this);
  post_messages();
  if (queue_ != nullptr) queue_->post_collected();
}

void Endpoint::post_messages() noexcept {
  if (collected_ == nullptr || collected_->empty()) return;
  // If it fails, the end of the endpoint gives the buffers back.
  if (connection_ != nullptr && !broken_) (void)submit(collected_->linked(), collected_->last());
  collected_->clear();
}

Post Endpoint::send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  if (!may_send()) return Post::again;
  if (sizeof(wire::Frame) + size > connection_->shape().inlined) {
    Buffer* buffer = verbs_.take_send_buffer();
    if (buffer == nullptr) return Post::again;
    std::byte* data = buffer->data + sizeof(wire::Frame);
    data = std::copy(header.begin(), header.end(), data);
    std::copy(payload.begin(), payload.end(), data);
    const Post post = send_buffer(tag, *buffer, size);
    if (post != Post::done) verbs_.give_back(*buffer);
    return post;
  }
  const wire::Frame frame{tag, wire::Kind::message, owed_};
  std::array<ibv_sge, 3> pieces;
  std::size_t count = 0;
  for (const ByteSpan part : {bytes_of(frame), header, payload}) {
    if (!part.empty()) pieces[count++] = piece_of(part.data(), part.size());
  }
  ibv_send_wr request = request_of(std::span{pieces}.first(count));
  request.send_flags = IBV_SEND_INLINE;
  if (!post(request, nullptr)) return Post::again;
  --credits_;
  owed_ = 0;
  return Post::done;
}

Post Endpoint::send_buffer(Tag tag, Buffer& buffer, std::size_t size) noexcept {
  if (!may_send()) return Post::again;
  const wire::Frame frame{tag, wire::Kind::message, owed_};
  std::memcpy(buffer.data, &frame, sizeof frame);
  std::array<ibv_sge, 1> pieces{piece_of(buffer.data, sizeof frame + size, buffer.key)};
  ibv_send_wr request = request_of(pieces);
  if (!post(request, &buffer)) return Post::again;
  --credits_;
  owed_ = 0;
  return Post::done;
}

bool Endpoint::send_control(wire::Kind kind, ByteSpan payload) noexcept {
  if (!send_frame({0, kind, owed_}, payload)) return false;
  owed_ = 0;
  return true;
}

bool Endpoint::send_frame(const wire::Frame& frame, ByteSpan payload) noexcept {
  if (room() == 0 || broken_) return false;
  std::array<std::byte, sizeof frame + sizeof(wire::Confirm)> bytes;
  std::memcpy(bytes.data(), &frame, sizeof frame);
  std::copy(payload.begin(), payload.end(), bytes.begin() + sizeof frame);
  const std::size_t size = sizeof frame + payload.size();
  Buffer* buffer = nullptr;
  std::array<ibv_sge, 1> pieces{piece_of(bytes.data(), size)};
  ibv_send_wr request = request_of(pieces);
  if (size <= connection_->shape().inlined) {
    request.send_flags = IBV_SEND_INLINE;
  } else {
    buffer = verbs_.take_send_buffer();
    if (buffer == nullptr) return false;
    std::memcpy(buffer->data, bytes.data(), size);
    pieces[0] = piece_of(buffer->data, size, buffer->key);
  }
  const bool last = frame.kind == wire::Kind::goodbye;
  if (last) request.send_flags |= IBV_SEND_SIGNALED;
  if (!post(request, buffer)) {
    if (buffer != nullptr) verbs_.give_back(*buffer);
    return false;
  }
  if (last) post_collected();
  return true;
}

void Endpoint::ask_for_more() noexcept {
  const bool due = static_cast<std::int32_t>(posted_ - ask_from_) >= 0;
  if (credits_ != 0 || !due || state_ != State::connected || confirm_due_) return;
  if (most_credits_ >= verbs_.config().credits) return;
  if (send_control(wire::Kind::more, {})) ask_from_ = posted_ + kAskEvery;
}

void Endpoint::grant_more() noexcept {
  const std::uint32_t more = std::min(window_, verbs_.config().credits - std::min(window_, verbs_.config().credits));
  if (more == 0 || to_grant_ != 0 || !verbs_.widen_window(more)) return;
  window_ += more;
  to_grant_ = more;
  return_credits();
}

void Endpoint::take_grant(std::uint32_t count) noexcept {
  // The peer may grant more than this side can use.
  const std::uint32_t usable = std::min(count, verbs_.config().credits - most_credits_);
  most_credits_ += usable;
  credits_ += usable;
  ask_from_ = posted_;
}

void Endpoint::return_credits() noexcept {
  // Beyond half a window: so at most two frames of credits are in flight, as kReserve assumes, and an answer to each
  // message returns its credit even where the window has only two.
  if (state_ != State::connected || confirm_due_ || leaving_) return;
  if (to_grant_ != 0 && send_frame({0, wire::Kind::grant, to_grant_}, {})) to_grant_ = 0;
  const bool due = owed_ > window_ / 2;
  const bool told = !due || send_control(wire::Kind::credits, {});
  // A peer without credits sends nothing that would trigger a retry here.
  if (to_grant_ != 0 || !told) verbs_.on_stalled();
}

void Endpoint::confirm() noexcept {
  wire::Confirm confirm{verbs_.wire_address(), {}};
  sign(session_, confirm);
  confirm_due_ = !send_control(wire::Kind::confirm, bytes_of(confirm));
  if (confirm_due_) return verbs_.on_stalled();
  credits_ = most_credits_;
}

void Endpoint::resume() noexcept {
  if (state_ == State::connected && confirm_due_) confirm();
  return_credits();
  if (queue_ != nullptr) queue_->resume();
}

void Endpoint::retire(std::uint32_t upto) noexcept {
  while (retired_ != upto) {
    if (Buffer*& buffer = sent_[retired_ % sent_.size()]; buffer != nullptr) {
      verbs_.give_back(*buffer);
      buffer = nullptr;
    }
    ++retired_;
  }
}

void Endpoint::on_sent(const ibv_wc& wc) noexcept {
  const auto number = static_cast<std::uint32_t>(wc.wr_id);
  if (number - retired_ >= posted_ - retired_) return;  // of an earlier connection
  retire(number + 1);
  if (wc.status != IBV_WC_SUCCESS) {
    if (!broken_ && wc.status != IBV_WC_WR_FLUSH_ERR) {
      log::warn("btl.verbs", "peer {}: {} (vendor's code {})", to_string(peer()), ibv_wc_status_str(wc.status),
                wc.vendor_err);
    }
    return break_off({Errc::peer_gone, wc.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET,
                      ibv_wc_status_str(wc.status), wc.vendor_err});
  }
  if (leaving_ && number == goodbye_) return end(error());
  return_credits();
}

// ---- Receiving --------------------------------------------------------------------------------------------------

void Endpoint::on_protocol_error(const char* what, std::uint64_t detail) noexcept {
  const Error why{Errc::protocol, 0, what, detail};
  log::warn("btl.verbs", "peer {} broke the protocol: {}", to_string(peer()), opal::to_string(why));
  end(why);
}

void Endpoint::take_credits(std::uint32_t count) noexcept {
  if (count > most_credits_ - credits_) return on_protocol_error("verbs: more credits than there are", count);
  credits_ += count;
}

void Endpoint::on_received(ByteSpan bytes) noexcept {
  wire::Frame frame{};
  if (state_ == State::ended) return;
  if (leaving_) {  // what the peer sends now is discarded, except its own goodbye
    if (read_object(bytes, frame) && frame.kind == wire::Kind::goodbye) end(error());
    return;
  }
  if (!read_object(bytes, frame)) return on_protocol_error("verbs: message without a frame", bytes.size());
  const ByteSpan payload = bytes.subspan(sizeof frame);
  if (state_ == State::half_open) {
    wire::Confirm confirm{};
    if (frame.kind != wire::Kind::confirm || !read_object(payload, confirm) || !is_genuine(session_, confirm)) {
      return on_protocol_error("verbs: the peer did not authenticate itself", bytes.size());
    }
    const auto address = decode(bytes_of(confirm.address));
    if (!address || address->id != peer()) return on_protocol_error("verbs: the peer confirmed with a bad address", 0);
    to_ = socket_of(*address);
    state_ = State::connected;
    credits_ = most_credits_;
    return verbs_.on_confirmed(*this);
  }
  if (frame.kind == wire::Kind::grant) return take_grant(frame.credits);
  take_credits(frame.credits);
  if (state_ == State::ended) return;
  switch (frame.kind) {
    case wire::Kind::message:
      if (++owed_ > window_) return on_protocol_error("verbs: more messages than credits", owed_);
      verbs_.deliver(*this, frame.tag, payload);
      return return_credits();
    case wire::Kind::credits: return;
    case wire::Kind::more: return grant_more();
    case wire::Kind::goodbye: return end({Errc::peer_gone, 0, "the peer has disconnected"});
    default: return on_protocol_error("verbs: unknown kind of frame", static_cast<std::uint64_t>(frame.kind));
  }
}

// ---- Ends -------------------------------------------------------------------------------------------------------

void Endpoint::break_off(const Error& why) noexcept {
  if (broken_ || state_ == State::ended) return;
  broken_ = true;
  reason_ = why;
  verbs_.on_broken();
}

bool Endpoint::leave(const Error& why) noexcept {
  const bool talking = state_ == State::connected && !broken_ && !confirm_due_ && !verbs_.device().inherited();
  goodbye_ = posted_;
  if (!talking || !send_control(wire::Kind::goodbye, {})) {
    mark_dead(why);
    return false;
  }
  if (served_ != nullptr) served_->stop();  // the peer's later puts are refused
  leaving_ = true;
  mark_dead(why);
  give_up_ns_ = verbs_.time_after(kCloseTimeout);
  return true;
}

}  // namespace opal::btl::verbs
