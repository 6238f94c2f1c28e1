// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/stream.hpp"

#include <algorithm>

#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"

namespace runtime::oob {
namespace {

constexpr Error kGone{Errc::peer_gone, 0, "oob: no way to the peer is left"};

/// The bytes that a message counts in window and queue: with a header, so that empty messages count too.
std::size_t weight(ByteSpan content) noexcept { return content.size() + sizeof(PieceHeader); }

}  // namespace

Stream::Stream(opal::am::Endpoint& base) noexcept
    : incarnation_(static_cast<std::uint32_t>(opal::random_u64()) | 1U), base_(&base), current_(&base) {}

PieceHeader Stream::header(Topic topic) const noexcept {
  return {.topic = static_cast<std::uint16_t>(topic),
          .acknowledged = assembler_.next(),
          .from = incarnation_,
          .to = peer_incarnation_};
}

bool Stream::is_from_another_incarnation(ByteSpan piece) const {
  const auto header = read_header(piece);
  return header && header->to == 0 && peer_incarnation_ != 0 && header->from != peer_incarnation_;
}

Result<void> Stream::send(Topic topic, std::string content) {
  if (content.size() > kLargestMessage) return Error{Errc::limit_reached, 0, "oob: message too long", content.size()};
  if (current_ == nullptr) return kGone;
  if (!idle() && waiting_bytes_ + content.size() > kQueueLimit) {
    return Error{Errc::limit_reached, 0, "oob: too much waits for this peer", waiting_bytes_};
  }
  waiting_bytes_ += weight(as_bytes(content));
  messages_.push_back({topic, std::move(content)});
  return advance();
}

/// Sends what the window allows.
Result<void> Stream::advance() {
  while (current_ != nullptr) {
    const auto sent = send_waiting();
    if (sent || !current_->dead()) return sent;  // the endpoint lives: the error is not its own
    close(*current_);
  }
  return kGone;
}

Result<void> Stream::send_waiting() {
  // During a change of endpoints no new message begins.
  while (!idle() && !changing() && under_way_bytes_ < kWindow) {
    const Message& message = messages_[next_];
    OPAL_TRY(send_pieces(message, first_number_ + next_));
    waiting_bytes_ -= weight(as_bytes(message.content));
    under_way_bytes_ += weight(as_bytes(message.content));
    ++next_;
    handed_ = std::max(handed_, first_number_ + next_);
  }
  if (changing() && next_ == 0) {
    current_ = upgrade_;
    asked_ = false;
    log_endpoint();
    return send_waiting();
  }
  if (tell_ || (changing() && !asked_)) return send_note();
  return {};
}

Result<void> Stream::send_pieces(const Message& message, std::uint64_t number) {
  const std::uint64_t most = current_->attributes().max_send;
  if (most <= sizeof(PieceHeader)) return Error{Errc::not_supported, 0, "oob: transport sends too little", most};
  const ByteSpan content = as_bytes(message.content);
  std::size_t offset = 0;
  do {
    const ByteSpan part =
        content.subspan(offset, std::min<std::uint64_t>(content.size() - offset, most - sizeof(PieceHeader)));
    PieceHeader head = header(message.topic);
    head.total = static_cast<std::uint32_t>(content.size());
    head.offset = static_cast<std::uint32_t>(offset);
    head.number = number;
    OPAL_TRY(post(head, part));
    offset += part.size();
  } while (offset < content.size());
  return {};
}

/// Sends an acknowledgement; before a change of endpoints with kAcknowledgeNow, to get one from the peer.
Result<void> Stream::send_note() {
  PieceHeader head = header(Topic::acknowledge);
  head.flags = changing() && !asked_ ? kAcknowledgeNow : 0;
  OPAL_TRY(post(head, {}));
  asked_ = asked_ || changing();
  return {};
}

/// Every piece acknowledges what has been received.
Result<void> Stream::post(const PieceHeader& header, ByteSpan part) {
  const opal::Post sent = current_->send_or_queue(kActiveMessageTag, opal::bytes_of(header), part);
  if (sent == opal::Post::failed) return current_->error();
  not_told_bytes_ = 0;
  tell_ = false;
  return {};
}

Result<const Assembler::Message*> Stream::receive(ByteSpan piece) {
  OPAL_TRY_ASSIGN(const PieceHeader header, read_header(piece));
  if (peer_incarnation_ == 0 && (header.to == 0 || header.to == incarnation_)) peer_incarnation_ = header.from;
  if (!is_for_this_incarnation(header)) return nullptr;
  OPAL_TRY(on_acknowledged(header.acknowledged));
  const Assembler::Message* message = nullptr;
  if (!is_note(Topic{header.topic})) {
    OPAL_TRY_ASSIGN(message, assembler_.add(piece));
  }
  if (message != nullptr) not_told_bytes_ += weight(message->content);
  tell_ = tell_ || (header.flags & kAcknowledgeNow) != 0 || not_told_bytes_ >= kAcknowledge;
  (void)advance();  // an error shows at the endpoint or at the next send()
  return message;
}

Result<void> Stream::on_acknowledged(std::uint64_t next) {
  if (next > handed_) return Error{Errc::protocol, 0, "oob: acknowledges what was not sent", next};
  for (; first_number_ < next; ++first_number_) {
    const std::size_t size = weight(as_bytes(messages_.front().content));
    (next_ > 0 ? under_way_bytes_ : waiting_bytes_) -= size;  // waiting: it was about to be sent again
    if (next_ > 0) --next_;
    messages_.pop_front();
  }
  return {};
}

void Stream::open_upgrade(opal::am::Endpoint& upgrade) {
  upgrade_ = &upgrade;
  asked_ = false;
  if (current_ == nullptr) current_ = &upgrade;
  (void)advance();
}

void Stream::close(opal::am::Endpoint& endpoint) {
  if (&endpoint == upgrade_) upgrade_ = nullptr;
  if (&endpoint == base_) base_ = nullptr;
  asked_ = false;
  if (current_ == &endpoint) {
    current_ = upgrade_ != nullptr ? upgrade_ : base_;
    rewind();
    tell_ = true;  // the last acknowledgement may be lost; a peer with a full window waits for it
    log_endpoint();
  }
  (void)advance();
}

void Stream::log_endpoint() const {
  if (current_ == nullptr) return;
  opal::log::debug("runtime", "peer {}: messages go over {} from now on", opal::to_string(current_->peer()),
                   current_->attributes().transport);
}

void Stream::cancel_change() {
  if (changing()) close(*upgrade_);
}

/// Marks all messages that the peer has not acknowledged as unsent.
void Stream::rewind() noexcept {
  waiting_bytes_ += under_way_bytes_;
  under_way_bytes_ = 0;
  next_ = 0;
}

}  // namespace runtime::oob
