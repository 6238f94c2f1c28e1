// SPDX-License-Identifier: Apache-2.0
// opal/btl/tag.hpp — a tag, 16 bits, selects the handler of an active message.  Each layer has its own range of tags.
#pragma once
#include <cstdint>

namespace opal {

using Tag = std::uint16_t;

/// First and last tag of one layer, both included.
struct TagRange {
  Tag first;
  Tag last;
  [[nodiscard]] constexpr bool contains(Tag tag) const noexcept { return tag >= first && tag <= last; }
};

inline constexpr TagRange kBtlTags{0x0001, 0x00ff};      ///< transports and the emulation of put, get and atomics
inline constexpr TagRange kAmTags{0x0100, 0x0fff};       ///< opal/am itself
inline constexpr TagRange kRuntimeTags{0x1000, 0x1fff};  ///< the runtime's out-of-band channel
inline constexpr TagRange kMpiTags{0x2000, 0x2fff};      ///< the MPI shim
inline constexpr TagRange kUserTags{0x8000, 0xfffe};     ///< programs and external libraries
/// False for 0x0000 and 0xffff, which transports use in their rings for "empty" and "skip".
constexpr bool is_tag(Tag tag) noexcept { return static_cast<Tag>(tag - 1) < 0xfffe; }

/// Marks answers: in the range of every layer but kUserTags, a tag with this bit set is that of an answer.
/// An answer ends an operation that its receiver has started, so the receiver bounds their number.  sm reserves
/// buffers for answers, so that they make progress while other messages meet back-pressure.
inline constexpr Tag kAnswerBit = 0x80;
constexpr bool is_answer(Tag tag) noexcept { return tag < kUserTags.first && (tag & kAnswerBit) != 0; }

}  // namespace opal
