// SPDX-License-Identifier: Apache-2.0
// runtime/oob/stream.hpp — the messages between this process and one peer: reliable, in order, once each, whichever of
// two ways carries them.  docs/design/oob.md: why nothing is lost when the way changes, and when it dies in mid-change.
// What is sent is kept until the peer has it.  The endpoints belong to their Contexts; the owner of the stream says
// when they stand and when they end.  Never blocks.  Threads: as the endpoints' Contexts.
#pragma once
#include <deque>
#include <string>

#include "opal/am/endpoint.hpp"
#include "opal/core/export.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

class OPAL_EXPORT Stream {
 public:
  static constexpr std::size_t kQueueLimit = 2 * kLargestMessage;  ///< bytes that wait for a slow peer
  static constexpr std::size_t kWindow = 1U << 20;                 ///< bytes in flight; beyond, the next message waits
  static constexpr std::size_t kAcknowledge = 64U << 10;           ///< bytes received, after which the peer is told

  explicit Stream(opal::am::Endpoint& base) noexcept;

  /// Sends what fits now and keeps a copy until the peer has it.  Errors: limit_reached (message or queue too long),
  /// peer_gone (no way is left).
  Result<void> send(Topic topic, std::string content);
  Result<void> send(Topic topic, ByteSpan content) { return send(topic, std::string{as_text(content)}); }

  /// Sends more of what waits.  Errors: peer_gone.
  Result<void> advance();
  /// The transport took nothing more at the last try: advance() is to be called soon.
  [[nodiscard]] bool blocked() const noexcept { return blocked_; }

  /// Whether everything has been handed to a transport.
  [[nodiscard]] bool idle() const noexcept { return next_ == messages_.size(); }

  /// Takes a piece or a note, by whichever way it came; gives the message that it completes, if it does.  Errors:
  /// protocol, version_mismatch; it is then dropped.
  Result<const Assembler::Message*> receive(ByteSpan piece);
  /// The content of the message that receive() has just given, to keep.
  [[nodiscard]] std::string take(const Assembler::Message& message) { return assembler_.take(message); }
  /// True for what comes from a new stream of the peer's, which has forgotten this one: it needs a new one here, too.
  [[nodiscard]] bool is_from_another_incarnation(ByteSpan piece) const;
  /// False for what was meant for a stream before this one, or comes from one: it is not to be listened to.
  [[nodiscard]] bool is_for_this_incarnation(const PieceHeader& header) const noexcept {
    return header.from == peer_incarnation_ && (header.to == 0 || header.to == incarnation_);
  }
  /// A header with both incarnations.
  [[nodiscard]] PieceHeader header(Topic topic) const noexcept;

  /// The upgraded transport is connected; it is used as soon as the peer has everything that was sent before.
  void open_upgrade(opal::am::Endpoint& upgrade);
  /// That way is over, good for nothing or not wanted any more: what the peer may not have goes out by the other one.
  void close(opal::am::Endpoint& way);
  /// Gives up an upgrade that has not come about: messages that wait for it are sent now.
  void stay();

  /// The way in use; null when none is left.
  [[nodiscard]] opal::am::Endpoint* current() const noexcept { return current_; }
  [[nodiscard]] opal::am::Endpoint* base() const noexcept { return base_; }
  [[nodiscard]] opal::am::Endpoint* upgrade() const noexcept { return upgrade_; }
  /// Messages so far, both ways together.
  [[nodiscard]] std::uint64_t traffic() const noexcept { return first_number_ + messages_.size() + assembler_.next(); }

 private:
  struct Message {
    Topic topic;
    std::string content;
    std::uint64_t sent = 0;
    bool started = false;
  };
  [[nodiscard]] bool changing() const noexcept { return upgrade_ != nullptr && current_ != upgrade_; }
  Result<void> on_acknowledged(std::uint64_t next);
  Result<bool> send_pieces(Message& message, std::uint64_t number);
  Result<bool> send_waiting();
  Result<bool> send_note();
  void rewind() noexcept;
  void say_way() const;

  const std::uint32_t incarnation_;
  std::uint32_t peer_incarnation_ = 0;  // 0: not heard of
  opal::am::Endpoint* base_;
  opal::am::Endpoint* upgrade_ = nullptr;
  opal::am::Endpoint* current_;
  Assembler assembler_;
  std::deque<Message> messages_;     // not known to be at the peer
  std::uint64_t first_number_ = 1;   // of messages_.front()
  std::uint64_t handed_ = 1;         // number after the highest that was handed to a way completely
  std::size_t next_ = 0;             // the first of messages_ that is not handed to the way in use completely
  std::size_t under_way_bytes_ = 0;  // of those before it
  std::size_t waiting_bytes_ = 0;    // of it and those behind
  std::size_t not_told_bytes_ = 0;   // received since the peer was last told
  bool blocked_ = false;
  bool tell_ = false;   // it is to be told now
  bool asked_ = false;  // the peer has been asked to tell us, for a change of ways
};

}  // namespace runtime::oob
