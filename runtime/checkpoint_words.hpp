// SPDX-License-Identifier: Apache-2.0
// runtime/checkpoint_words.hpp — the checkpoint messages between launcher and ranks: text in PMIX_JOB_CTRL_ID
// (docs/design/checkpoint.md).  The launcher sends "STEP ROUND".  A rank answers with the same text; if it cannot do
// the step, it appends a space and the reason.
#pragma once
#include <array>
#include <string_view>

namespace runtime {

/// The texts for STEP; the index is CheckpointStep::Kind.
inline constexpr std::array<std::string_view, 3> kCheckpointSteps{"quiesce", "checkpoint", "resume"};

inline constexpr std::string_view kJoinsCheckpoints =
    "join";  ///< a rank sends it first: it answers requests from now on
inline constexpr std::string_view kLeavesCheckpoints =
    "leave";  ///< a rank sends it last: it answers no further request

}  // namespace runtime
