// SPDX-License-Identifier: Apache-2.0
// runtime/oob/stream.hpp — the messages between this process and one peer: reliable, in order, each once, over one of
// two endpoints (base, upgrade).  docs/design/oob.md says why nothing is lost when the endpoint in use changes or
// fails. The stream keeps a copy of each message until the peer acknowledges it.  The endpoints belong to their
// Contexts; the owner of the stream reports when they are connected and when they have ended.  Never blocks. Threads:
// as the endpoints' Contexts.
#pragma once
#include <deque>
#include <string>

#include "opal/am/endpoint.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

class Stream {
 public:
  // Bytes; each message counts its content and a PieceHeader.
  static constexpr std::size_t kQueueLimit = 2 * kLargestMessage;  ///< queued here, before send() fails
  static constexpr std::size_t kWindow = 1U << 20;  ///< handed over and not acknowledged, before the next message waits
  static constexpr std::size_t kAcknowledge = 64U << 10;  ///< received, before an acknowledgement is sent

  explicit Stream(opal::am::Endpoint& base) noexcept;

  /// Queues a message and sends what the window allows.  Errors: limit_reached (message or queue too long; nothing is
  /// queued), peer_gone (no endpoint is left).
  Result<void> send(Topic topic, std::string content);

  /// True when all messages have been handed to an endpoint, which may queue them.
  [[nodiscard]] bool idle() const noexcept { return next_ == messages_.size(); }

  /// Takes a piece or a note from either endpoint.  Returns the message that it completes (valid as Assembler::add()
  /// says), or null.  Errors: protocol, version_mismatch; the piece is dropped.
  Result<const Assembler::Message*> receive(ByteSpan piece);
  /// Takes the content of the message that receive() has just returned.
  [[nodiscard]] std::string take(const Assembler::Message& message) { return assembler_.take(message); }
  /// True when `piece` comes from a new incarnation of the peer's end, which does not know this stream.  The owner must
  /// replace this stream by a new one.
  [[nodiscard]] bool is_from_another_incarnation(ByteSpan piece) const;
  /// False when the piece comes from, or is for, an earlier incarnation of either end; it must be ignored.
  [[nodiscard]] bool is_for_this_incarnation(const PieceHeader& header) const noexcept {
    return header.from == peer_incarnation_ && (header.to == 0 || header.to == incarnation_);
  }
  /// A header with the incarnations of both ends and the acknowledgement.
  [[nodiscard]] PieceHeader header(Topic topic) const noexcept;

  /// The endpoint of the upgrade is connected.  The stream uses it when the peer has acknowledged all earlier messages.
  void open_upgrade(opal::am::Endpoint& upgrade);
  /// The endpoint has failed or is no longer wanted.  If it was in use, all messages that the peer has not acknowledged
  /// are sent again over the other one.
  void close(opal::am::Endpoint& endpoint);
  /// Cancels a change to the upgrade that is in progress; messages that wait for it are sent over the base endpoint.
  void cancel_change();

  /// The endpoint in use; null when none is left.
  [[nodiscard]] opal::am::Endpoint* current() const noexcept { return current_; }
  [[nodiscard]] opal::am::Endpoint* base() const noexcept { return base_; }
  /// Number of messages sent and received so far, plus 2.
  [[nodiscard]] std::uint64_t traffic() const noexcept { return first_number_ + messages_.size() + assembler_.next(); }

 private:
  struct Message {
    Topic topic;
    std::string content;
  };
  [[nodiscard]] bool changing() const noexcept { return upgrade_ != nullptr && current_ != upgrade_; }
  Result<void> on_acknowledged(std::uint64_t next);
  Result<void> advance();
  Result<void> send_pieces(const Message& message, std::uint64_t number);
  Result<void> send_waiting();
  Result<void> send_note();
  Result<void> post(const PieceHeader& header, ByteSpan part);
  void rewind() noexcept;
  void log_endpoint() const;

  const std::uint32_t incarnation_;
  std::uint32_t peer_incarnation_ = 0;  // 0: no piece has come
  opal::am::Endpoint* base_;
  opal::am::Endpoint* upgrade_ = nullptr;
  opal::am::Endpoint* current_;
  Assembler assembler_;
  std::deque<Message> messages_;     // not acknowledged by the peer
  std::uint64_t first_number_ = 1;   // number of messages_.front()
  std::uint64_t handed_ = 1;         // number after the highest that was handed to any endpoint
  std::size_t next_ = 0;             // index of the first message not handed to the endpoint in use
  std::size_t under_way_bytes_ = 0;  // of the messages before next_
  std::size_t waiting_bytes_ = 0;    // of the messages from next_ on
  std::size_t not_told_bytes_ = 0;   // received since the last acknowledgement was sent
  bool tell_ = false;                // send an acknowledgement now
  bool asked_ = false;               // kAcknowledgeNow was sent for the change to the upgrade
};

}  // namespace runtime::oob
