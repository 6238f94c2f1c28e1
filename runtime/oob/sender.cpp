// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/sender.hpp"

#include <algorithm>

namespace runtime::oob {

Result<bool> Sender::send_pieces(Topic topic, ByteSpan content, std::uint64_t& sent, bool& started) {
  const std::uint64_t most = to_.attributes().max_send;
  if (most <= sizeof(PieceHeader)) return Error{Errc::not_supported, 0, "oob: transport sends too little", most};
  while (!started || sent < content.size()) {
    const PieceHeader header{kVersion, static_cast<std::uint16_t>(topic), 0, content.size(), sent};
    const ByteSpan part = content.subspan(sent, std::min<std::uint64_t>(content.size() - sent, most - sizeof header));
    const opal::Post post = to_.send_inline(kActiveMessageTag, opal::bytes_of(header), part);
    if (post == opal::Post::again) return false;
    if (post == opal::Post::failed) return to_.error();
    started = true;
    sent += part.size();
  }
  return true;
}

Result<void> Sender::send(Topic topic, ByteSpan content) {
  if (content.size() > kLargestMessage) return Error{Errc::limit_reached, 0, "oob: message too long", content.size()};
  std::uint64_t sent = 0;
  bool started = false;
  if (waiting_.empty()) {
    OPAL_TRY_ASSIGN(const bool all, send_pieces(topic, content, sent, started));
    if (all) return {};
  } else if (waiting_bytes_ + content.size() > kQueueLimit) {
    return Error{Errc::limit_reached, 0, "oob: too much waits for this peer", waiting_bytes_};
  }
  waiting_bytes_ += content.size();
  waiting_.push_back({topic, std::string{as_text(content)}, sent, started});
  return {};
}

Result<bool> Sender::advance() {
  while (!waiting_.empty()) {
    Message& next = waiting_.front();
    OPAL_TRY_ASSIGN(const bool all, send_pieces(next.topic, as_bytes(next.content), next.sent, next.started));
    if (!all) return false;
    waiting_bytes_ -= next.content.size();
    waiting_.pop_front();
  }
  return true;
}

}  // namespace runtime::oob
