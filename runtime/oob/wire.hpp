// SPDX-License-Identifier: Apache-2.0
// runtime/oob/wire.hpp — the out-of-band messages between ranks and their daemon, as bytes.
// A message is sent as one or more pieces in order on one endpoint; each piece has the header below and then its part
// of the content.  Whoever cannot finish a message starts the next at offset 0, which discards the unfinished one.
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

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::uint64_t kLargestMessage = 8U << 20;  ///< bytes; more is refused at both ends

/// What a message is about.
enum class Topic : std::uint16_t {
  hello = 1,       ///< rank to daemon, first of all: Hello, then the job id
  welcome = 2,     ///< daemon to rank: you are known; empty
  refused = 3,     ///< daemon to rank: why not
  echo = 4,        ///< rank to daemon: send this back
  echo_reply = 5,  ///< daemon to rank: the content of `echo`
  log = 6,         ///< rank to daemon: one line for people
  abort = 7,       ///< rank to daemon: std::int32_t status, then the reason
  user = 64,       ///< from here on: whoever uses the channel
};

struct PieceHeader {
  std::uint16_t version;   ///< kVersion
  std::uint16_t topic;     ///< Topic; the same in all pieces
  std::uint32_t reserved;  ///< 0
  std::uint64_t total;     ///< bytes of the whole message
  std::uint64_t offset;    ///< of this piece's content in it
};
static_assert(sizeof(PieceHeader) == 24 && std::has_unique_object_representations_v<PieceHeader>,
              "copied as bytes between processes: no padding");

struct Hello {
  std::uint32_t rank;
  std::uint32_t pid;
};
static_assert(sizeof(Hello) == 8 && std::has_unique_object_representations_v<Hello>,
              "copied as bytes between processes: no padding");

/// Puts the pieces of one peer's messages together.
class OPAL_EXPORT Assembler {
 public:
  struct Message {
    Topic topic;
    ByteSpan content;  ///< until the next add()
  };

  /// Takes one piece; gives the message that it completes, if it does.  Errors: protocol, version_mismatch; the piece
  /// and what it belonged to are then dropped.
  Result<const Message*> add(ByteSpan piece);

 private:
  Error drop(Error why);
  std::string content_;
  std::uint64_t total_ = 0;
  std::uint16_t topic_ = 0;
  bool unfinished_ = false;
  Message complete_{};
};

/// An address as it is spelled in the environment.
OPAL_EXPORT std::string to_hex(ByteSpan bytes);
OPAL_EXPORT Result<std::string> from_hex(std::string_view text);  ///< Errors: protocol

inline ByteSpan as_bytes(std::string_view text) noexcept { return std::as_bytes(std::span{text}); }
inline std::string_view as_text(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace runtime::oob
