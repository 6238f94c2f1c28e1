// SPDX-License-Identifier: Apache-2.0
// opal/btl/tag.hpp — a tag selects the handler of an active message.  16 bits, in ranges so that layers never collide.
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

inline constexpr TagRange kBtlTags{0x0001, 0x00ff};      ///< inside transports and the put/get emulation
inline constexpr TagRange kAmTags{0x0100, 0x0fff};       ///< opal/am itself
inline constexpr TagRange kRuntimeTags{0x1000, 0x1fff};  ///< the runtime's out-of-band channel
inline constexpr TagRange kMpiTags{0x2000, 0x2fff};      ///< the MPI shim
inline constexpr TagRange kUserTags{0x8000, 0xfffe};     ///< programs and external libraries
// 0x0000 and 0xffff are never tags: transports use them as "nothing here" and "skip".
constexpr bool is_tag(Tag tag) noexcept { return static_cast<Tag>(tag - 1) < 0xfffe; }

/// An answer lets an operation end that its receiver has begun and waits for, so there are never more of them than
/// their receivers have asked for.  Transports keep room for answers that other messages cannot use: however many send
/// to one, what makes the many go on gets through.  In every layer's range but the users', the tags with this bit set.
inline constexpr Tag kAnswerBit = 0x80;
constexpr bool is_answer(Tag tag) noexcept { return tag < kUserTags.first && (tag & kAnswerBit) != 0; }

}  // namespace opal
