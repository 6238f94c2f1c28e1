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
#include "opal/core/export.hpp"
#include "runtime/core_names.hpp"

namespace runtime::oob {

/// The one active-message tag of this channel.
inline constexpr opal::Tag kActiveMessageTag = opal::kRuntimeTags.first;

inline constexpr std::uint16_t kVersion = 4;
inline constexpr std::uint64_t kLargestMessage = 8U << 20;  ///< bytes; more is refused at both ends

/// What a message is about.
enum class Topic : std::uint16_t {
  hello = 1,       ///< rank to daemon, first of all: Hello, then the job id
  welcome = 2,     ///< daemon to rank: you are known; empty
  refused = 3,     ///< daemon to rank: why not
  echo = 4,        ///< rank to daemon: send this back
  echo_reply = 5,  ///< daemon to rank: the content of `echo`
  // Notes: one piece each, not numbered; what they are for: connection.hpp.
  acknowledge = 32,    ///< nothing but the header; empty
  want = 33,           ///< Note: asks for an address by which a better transport may reach the peer
  offer = 34,          ///< Note, then an address; none: not at all
  upgrade_hello = 35,  ///< Note, by the better transport: this is the peer that got the offer
  upgrade_ready = 36,  ///< Note, by the better transport: it is used from now on
  drop = 37,           ///< Note: the transport upgrade of that generation is over
  user = 64,           ///< from here on: the users of the channel
};

[[nodiscard]] constexpr bool is_note(Topic topic) noexcept {
  return topic >= Topic::acknowledge && topic < Topic::user;
}

struct PieceHeader {
  std::uint16_t version = kVersion;
  std::uint16_t topic = 0;         ///< Topic; the same in all pieces
  std::uint32_t flags = 0;         ///< kAnswer
  std::uint32_t total = 0;         ///< bytes of the whole message
  std::uint32_t offset = 0;        ///< of this piece's content in it
  std::uint64_t number = 0;        ///< of the message: 1, 2, 3... of all from this side to that; of a note 0
  std::uint64_t acknowledged = 0;  ///< the sender of this has all messages of lower numbers
  std::uint32_t from = 0;          ///< which incarnation of the sender's end this is: numbers begin anew with each
  std::uint32_t to = 0;            ///< which of the receiver's it is for; 0: the sender has not heard of one
};
static_assert(sizeof(PieceHeader) == 40 && std::has_unique_object_representations_v<PieceHeader>,
              "copied as bytes between processes: no padding");
inline constexpr std::uint32_t kAnswer = 1;  ///< flag: acknowledge now what you have

/// About a transport upgrade to the same peer.
struct Note {
  std::uint32_t generation = 0;  ///< which attempt: 1, 2, 3...
  std::uint32_t reserved = 0;
  std::uint64_t token = 0;  ///< of the side that made the offer, by which it knows the peer of an upgrade_hello
};
static_assert(sizeof(Note) == 16 && std::has_unique_object_representations_v<Note>,
              "copied as bytes between processes: no padding");

struct Hello {
  std::uint32_t rank;
  std::uint32_t pid;
};
static_assert(sizeof(Hello) == 8 && std::has_unique_object_representations_v<Hello>,
              "copied as bytes between processes: no padding");

/// Puts the pieces of one peer's messages together, each message once and in the order of the numbers.
class OPAL_EXPORT Assembler {
 public:
  struct Message {
    Topic topic;
    ByteSpan content;  ///< valid until the next add(), and only while the piece that completed it exists
  };

  /// Takes the content of the message that add() has just given.
  [[nodiscard]] std::string take(const Message& message);

  /// Takes one piece of a message, not a note; gives the message that it completes, if it does.  Of what is known
  /// already only the rest counts.  Errors: protocol, version_mismatch; the piece is then dropped and nothing changed.
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
OPAL_EXPORT Result<PieceHeader> read_header(ByteSpan piece);

/// Bytes as lower-case hexadecimal text: daemon addresses in the environment, the first line that opald prints.
OPAL_EXPORT std::string to_hex(ByteSpan bytes);
OPAL_EXPORT Result<std::string> from_hex(std::string_view text);  ///< Errors: protocol

inline ByteSpan as_bytes(std::string_view text) noexcept { return std::as_bytes(std::span{text}); }
inline std::string_view as_text(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace runtime::oob
