// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/wire.hpp — the messages between the members (daemons; the root is the launcher) of the tree, as bytes
// (docs/design/overlay.md).
// A frame is a FrameHeader and a body packed by runtime/packing.hpp: the members in their order, a number in 64 bits.
// The out-of-band channel delivers whole frames.  A forwarded message keeps its body and gets a new header.  The
// receiver checks everything before use.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/oob/wire.hpp"
#include "runtime/overlay/id_set.hpp"
#include "runtime/packing.hpp"

namespace runtime::overlay {

inline constexpr std::uint16_t kVersion = 7;  ///< of all frames; change one => bump it

enum class FrameType : std::uint16_t {
  attach = 1,  ///< to a member higher up: asks to become its child; body Attach
  attached,    ///< accepts an attach; body Attached
  refused,     ///< refuses an attach, or ends a lost child; body Refused
  up,          ///< a message for the root; body Up
  down,        ///< a message from the root; body Down
  /// To a child: the root has its messages up to `number`.  To the parent: this subtree has those of the root's
  /// messages up to `number` that are for it.  Empty.
  ack,
  heartbeat,   ///< sent regularly, so that silence shows a failure; empty
  moved,       ///< to a child: a member of its subtree has a parent above the child now; body Id
  contribute,  ///< a part of a collective operation; body Contribution
  lost,        ///< to a child, ahead of queued messages: a member counts as lost; body Lost
};

struct FrameHeader {
  std::uint16_t version;  ///< kVersion
  std::uint16_t type;     ///< FrameType
  std::uint32_t attach;   ///< number of the child's attempt to attach; frames of earlier attempts are dropped
  std::uint64_t number;   ///< up: counts the child's messages; down: the root's; ack: the last acknowledged; else 0
};
static_assert(sizeof(FrameHeader) == 16 && std::has_unique_object_representations_v<FrameHeader>,
              "copied as bytes between processes: no padding");

struct Attach {
  Id member = 0;
  std::uint64_t down_received = 0;  ///< number of the last message from the root that the member has
  std::uint64_t first_unacked = 0;  ///< number of the first up message without acknowledgement; it is sent next
  bool fresh = false;               ///< it never had a parent before
  std::vector<Id> moved;            ///< roots of subtrees below the member that have a parent above it
};

struct Attached {
  std::vector<Id> moved;  ///< roots of subtrees below the child that have a parent above it
  IdSet lost;             ///< all lost members
};

/// Why a member counts as lost, as far as the member that reports it knows.
enum class Loss : std::uint8_t {
  closed = 1,  ///< its connection ended, and it did not attach again
  silent,      ///< nothing arrived from it for silence_timeout
  absent,      ///< it never attached
  declared,    ///< any other reason: Node::declare_lost(), a protocol error, or unknown to this member
};

struct Lost {
  Id member = 0;
  Loss why = Loss::declared;
};

enum class Refusal : std::uint8_t {
  expelled = 1,  ///< the member counts as lost and has to end
  elsewhere,     ///< not here: the member tries the parent of the refusing member
};

struct Refused {
  Refusal why{};
};

// The content of these refers to the caller's bytes, or to the frame that they were unpacked from.
struct Up {
  Id origin = 0;
  std::uint64_t sequence = 0;  ///< of the origin's messages, from 1
  std::uint16_t topic = 0;     ///< below kFirstUserTopic: an InternalTopic
  ByteSpan content;
};

struct Down {
  IdSet to;  ///< the receivers
  std::uint16_t topic = 0;
  ByteSpan content;
};

/// Messages of the overlay itself, within up and down.
enum class InternalTopic : std::uint16_t {
  report_lost = 1,  ///< up: Report
  report_moved,     ///< up: Report: the member attached to the reporter
  report_left,      ///< up: Report: the member is no longer the reporter's child: its subtree has a higher parent
  release,          ///< down: Release
};
inline constexpr std::uint16_t kFirstUserTopic = 64;

/// Most bytes of the content of a message; the other 64 KiB of a frame are for the header and the packed fields.
inline constexpr std::size_t kLargestContent = oob::kLargestMessage - (64U << 10);

struct Report {
  Id member = 0;
  std::uint32_t attach = 0;   ///< the member's last attempt that the reporter knows of
  Loss why = Loss::declared;  ///< of report_lost
};

/// Identifies a collective operation: number `sequence`, from 1, of those with this key and participants.
struct OperationName {
  std::string key;
  std::uint64_t sequence = 0;
  friend auto operator<=>(const OperationName&, const OperationName&) = default;
};

using Parts = std::vector<std::pair<Id, std::string>>;  ///< ascending; members without data are left out

struct Contribution {
  OperationName name;
  IdSet participants;
  IdSet covered;            ///< participants whose arrival is included
  std::int64_t status = 0;  ///< the first status that is not 0, or 0
  bool too_large = false;   ///< as in Release
  Parts parts = {};
};

struct Release {
  OperationName name;
  std::int64_t status = 0;
  IdSet lost = {};         ///< participants that did not arrive
  bool too_large = false;  ///< the parts are larger than a frame and are left out
  Parts parts = {};
};

/// The bytes of a frame.
inline std::string frame(FrameType type, std::uint32_t attach, std::uint64_t number, std::string_view body = {}) {
  const FrameHeader header{kVersion, static_cast<std::uint16_t>(type), attach, number};
  std::string bytes{oob::as_text(opal::bytes_of(header))};
  bytes += body;
  return bytes;
}

}  // namespace runtime::overlay
