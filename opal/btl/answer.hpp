// SPDX-License-Identifier: Apache-2.0
// opal/btl/answer.hpp — which messages are answers.  An answer lets an operation end that its receiver has begun and
// waits for, so there are never more of them than their receivers have asked for.  Transports keep room for answers
// that other messages cannot use: however many send to one, what makes the many go on gets through.
#pragma once
#include "opal/btl/tag.hpp"

namespace opal {

/// In every layer's range but the users', the tags with this bit set.
inline constexpr Tag kAnswerBit = 0x80;

constexpr bool is_answer(Tag tag) noexcept { return tag < kUserTags.first && (tag & kAnswerBit) != 0; }

}  // namespace opal
