// SPDX-License-Identifier: Apache-2.0
// runtime/oob/wire.hpp — the out-of-band channel as bytes: numbered messages in pieces, and notes about transport
// upgrades. A message goes as one or more pieces; each has the header below and then its part of the content.  Numbers
// and offsets let the receiver recognise what it has already, also if it is sent again over another transport or
// divided differently.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "opal/btl/tag.hpp"
#include "runtime/core_names.hpp"

namespace runtime::oob {

/// The one active-message tag of this channel.
inline constexpr opal::Tag kActiveMessageTag = opal::kRuntimeTags.first;

inline constexpr std::uint16_t kVersion = 5;
inline constexpr std::uint64_t kLargestMessage = 8U << 20;  ///< bytes; more is refused at both ends

/// What a message is about.
enum class Topic : std::uint16_t {
  // Notes: one piece each, not numbered.  acknowledge belongs to the Stream, the others to connection.hpp.
  acknowledge = 32,    ///< carries only the header
  want = 33,           ///< Note: requests the peer's address for better transports
  offer = 34,          ///< Note, then that address; without an address there is no better transport
  upgrade_hello = 35,  ///< Note, over the better transport: identifies the peer that got the offer
  upgrade_ready = 36,  ///< Note, over the better transport: accepts the upgrade_hello
  drop = 37,           ///< Note: the transport upgrade of this generation has ended
  user = 64,           ///< from here on: the users of the channel
};

[[nodiscard]] constexpr bool is_note(Topic topic) noexcept {
  return topic >= Topic::acknowledge && topic < Topic::user;
}

struct PieceHeader {
  std::uint16_t version = kVersion;
  std::uint16_t topic = 0;         ///< Topic; the same in all pieces
  std::uint32_t flags = 0;         ///< kAcknowledgeNow
  std::uint32_t total = 0;         ///< bytes of the whole message
  std::uint32_t offset = 0;        ///< of this piece's content in the message, in bytes
  std::uint64_t number = 0;        ///< of the message: 1, 2, 3 ... in each direction; 0 in a note
  std::uint64_t acknowledged = 0;  ///< the sender of this piece has received all messages with lower numbers
  std::uint32_t from = 0;          ///< incarnation of the sender's end; each numbers its messages from 1
  std::uint32_t to = 0;            ///< incarnation of the receiver's end; 0: the sender does not know it
};
static_assert(sizeof(PieceHeader) == 40 && std::has_unique_object_representations_v<PieceHeader>,
              "copied as bytes between processes: no padding");
inline constexpr std::uint32_t kAcknowledgeNow = 1;  ///< flag: the receiver must send an acknowledgement now

/// The content of the notes about a transport upgrade.
struct Note {
  std::uint32_t generation = 0;  ///< number of the attempt: 1, 2, 3 ...
  std::uint32_t reserved = 0;
  std::uint64_t token = 0;  ///< random; the side that offers recognizes an upgrade_hello by it
};
static_assert(sizeof(Note) == 16 && std::has_unique_object_representations_v<Note>,
              "copied as bytes between processes: no padding");

/// Puts the pieces of one peer's messages together, each message once and in the order of the numbers.
class Assembler {
 public:
  struct Message {
    Topic topic;
    ByteSpan content;  ///< valid until the next add(), and only while the piece that completed it exists
  };

  /// Takes the content of the message that add() has just returned.
  [[nodiscard]] std::string take(const Message& message);

  /// Takes one piece of a message.  Returns the message that it completes, or null.  Bytes that have come before are
  /// ignored.  Requires: `piece` is no note.  Errors: protocol, version_mismatch; then nothing is changed.
  Result<const Message*> add(ByteSpan piece);

  /// The number of the first message that has not arrived completely.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }

 private:
  std::uint64_t next_ = 1;
  bool begun_ = false;  // message `next_`: content_ is its first part
  std::uint16_t topic_ = 0;
  std::uint64_t total_ = 0;
  std::string content_;
  Message complete_{};
};

/// The header of a piece.  Errors: protocol, version_mismatch.
Result<PieceHeader> read_header(ByteSpan piece);

/// Bytes as lower-case hexadecimal text, for the bootstrap line of opald.
std::string to_hex(ByteSpan bytes);
Result<std::string> from_hex(std::string_view text);  ///< Errors: protocol

inline ByteSpan as_bytes(std::string_view text) noexcept { return std::as_bytes(std::span{text}); }
inline std::string_view as_text(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace runtime::oob
