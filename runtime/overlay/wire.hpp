// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/wire.hpp — what members of the overlay say to each other, as bytes.
// A frame is a header of fixed size and a body packed by runtime/packing.hpp; the out-of-band channel brings frames
// whole.  Messages that are only passed on keep their body and get a new header.  Everything is checked before use.
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

inline constexpr std::uint16_t kVersion = 6;  ///< of all frames; change one => bump it

enum class FrameType : std::uint16_t {
  attach = 1,  ///< to a member higher up: be my parent; body Attach
  attached,    ///< the answer; body Attached
  refused,     ///< the other one; body Refused
  up,          ///< a message for the root; body Up
  down,        ///< a message from the root; body Down
  ack,         ///< all up to `number` has arrived for good; empty
  beat,        ///< I live; empty
  moved,       ///< downwards: members that have another parent now; body Moved
  contribute,  ///< a part of a collective operation; body Contribution
  lost,        ///< downwards, ahead of all messages: members that are out; body Lost
};

struct FrameHeader {
  std::uint16_t version;  ///< kVersion
  std::uint16_t type;     ///< FrameType
  std::uint32_t attach;   ///< which attachment of the child this link is: frames of an earlier one are dropped
  std::uint64_t number;   ///< up: of the child's messages; down: of the root's; ack: the last one
};
static_assert(sizeof(FrameHeader) == 16 && std::has_unique_object_representations_v<FrameHeader>,
              "copied as bytes between processes: no padding");

struct Attach {
  Id member = 0;
  std::uint64_t heard = 0;  ///< the last number of the root's that has come here
  std::uint64_t first = 0;  ///< the number of the first message that comes after this
  bool fresh = false;       ///< it never had a parent before
  std::vector<Id> moved;    ///< tops of subtrees below it that have another parent
};

struct Attached {
  std::vector<Id> moved;  ///< of the child's subtree: tops that have another parent
  IdSet lost;             ///< all lost members
};

struct Moved {
  Id member = 0;
};

/// Why a member counts as lost, as far as the member that missed it knows.
enum class Loss : std::uint8_t {
  closed = 1,  ///< its connection ended, and it did not come back
  silent,      ///< nothing was heard of it
  absent,      ///< it never came
  declared,    ///< the root had other news
};

struct Lost {
  Id member = 0;
  Loss why = Loss::declared;
};

enum class Refusal : std::uint8_t {
  expelled = 1,  ///< you count as lost: end
  elsewhere,     ///< try my parent
};

struct Refused {
  Refusal why{};
};

template <class Content>
struct UpOf {
  Id origin = 0;
  std::uint64_t sequence = 0;  ///< of the origin's messages, from 1
  std::uint16_t topic = 0;     ///< below kFirstUserTopic: OwnTopic
  Content content;
};

template <class Content>
struct DownOf {
  IdSet to;
  std::uint16_t topic = 0;
  Content content;
};

using Up = UpOf<std::string>;
using Down = DownOf<std::string>;
/// The same as they arrive: the content lies in the frame.
using UpView = UpOf<ByteSpan>;
using DownView = DownOf<ByteSpan>;

/// Messages of the overlay itself, within up and down.
enum class OwnTopic : std::uint16_t {
  report_lost = 1,  ///< up: Report
  report_moved,     ///< up: Report: has attached here
  report_left,      ///< up: Report: was attached here, and was sent further up
  release,          ///< down: Release
  forget,           ///< down, to all: Forget
};
inline constexpr std::uint16_t kFirstUserTopic = 64;

/// Bytes of the content of a message; the rest of a frame is for what is around it.
inline constexpr std::size_t kLargestContent = oob::kLargestMessage - (64U << 10);

struct Report {
  Id member = 0;
  std::uint32_t attach = 0;   ///< the last one that the reporter knows of
  Loss why = Loss::declared;  ///< of report_lost
};

/// Names a collective operation: the `use`th with this key, from 1, among the same participants; Forget counts anew.
struct OperationName {
  std::string key;
  std::uint64_t use = 0;
  friend auto operator<=>(const OperationName&, const OperationName&) = default;
};

using Parts = std::vector<std::pair<Id, std::string>>;  ///< ascending; members without data are left out

struct Contribution {
  OperationName name;
  std::uint64_t heard = 0;  ///< the last number of the root's that has come to the teller: it names things as of then
  IdSet participants;
  IdSet covered;  ///< whose arrival this tells
  std::int64_t status = 0;
  bool too_large = false;  ///< as in Release
  Parts parts = {};
};

struct Release {
  OperationName name;
  std::int64_t status = 0;
  IdSet lost = {};         ///< participants that did not arrive
  bool too_large = false;  ///< the parts together are more than a frame holds, and left out
  Parts parts = {};
};

/// The uses of these keys up to the named ones have ended; whatever comes after is the first use, the second, ...
struct Forget {
  std::vector<OperationName> names;
};

/// The frame as one text.
inline std::string frame(FrameType type, std::uint32_t attach, std::uint64_t number, std::string_view body = {}) {
  const FrameHeader header{kVersion, static_cast<std::uint16_t>(type), attach, number};
  std::string bytes{oob::as_text(opal::bytes_of(header))};
  bytes += body;
  return bytes;
}

}  // namespace runtime::overlay
