// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/frame_reader.hpp"

#include <cstring>

namespace opal::btl::tcp {

FrameReader::Next FrameReader::broken(const char* why, std::uint64_t detail) noexcept {
  error_ = {Errc::protocol, 0, why, detail};
  return Next::broken;
}

FrameReader::Next FrameReader::next() noexcept {
  if (!read_object(unread(), frame_)) return Next::incomplete;
  while (frame_.kind == static_cast<std::uint16_t>(wire::Kind::filler)) {
    if (frame_.size != wire::kFillerSize || frame_.tag != 0) return broken("tcp: filler of a wrong size", frame_.size);
    if (unread().size() < wire::frame_size(wire::kFillerSize)) return Next::incomplete;
    begin_ += wire::frame_size(wire::kFillerSize);
    if (!read_object(unread(), frame_)) return Next::incomplete;
  }
  if (frame_.kind == static_cast<std::uint16_t>(wire::Kind::goodbye)) {
    if (frame_.size != 0 || frame_.tag != 0) return broken("tcp: goodbye with content", frame_.size);
    begin_ += sizeof frame_;
    return Next::goodbye;
  }
  if (frame_.kind != static_cast<std::uint16_t>(wire::Kind::message)) {
    return broken("tcp: unknown kind of frame", frame_.kind);
  }
  if (frame_.size > max_payload_) return broken("tcp: message longer than announced", frame_.size);
  if (frame_.tag == 0 || frame_.tag == 0xffff) return broken("tcp: message with a reserved tag", frame_.tag);
  const std::size_t whole = wire::frame_size(frame_.size);
  if (unread().size() < whole) return Next::incomplete;
  payload_ = unread().subspan(sizeof frame_, frame_.size);
  begin_ += whole;
  return Next::message;
}

ByteSpan FrameReader::begun() const noexcept {
  const ByteSpan arrived = unread();
  if (arrived.size() <= sizeof frame_ || frame_.kind != static_cast<std::uint16_t>(wire::Kind::message)) return {};
  return arrived.subspan(sizeof frame_, std::min<std::size_t>(arrived.size() - sizeof frame_, frame_.size));
}

void FrameReader::move_to_front() noexcept {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

MutableBytes FrameReader::room() noexcept {
  if (begin_ == end_) begin_ = end_ = 0;
  const std::size_t largest = largest_frame(max_payload_);
  std::size_t limit = buffer_.size();
  if (end_ - begin_ < sizeof frame_) {
    if (limit - begin_ < largest) move_to_front();
  } else {
    // frame_ is the incomplete frame, which next() has checked.  If no largest frame fits after it, receive only up to
    // its end: the next frame then starts at the front, so whole frames are never moved.
    const std::size_t whole = wire::frame_size(frame_.size);
    if (limit - begin_ < whole) move_to_front();
    if (limit - begin_ - whole < largest) limit = begin_ + whole;
  }
  return buffer_.subspan(end_, limit - end_);
}

}  // namespace opal::btl::tcp
