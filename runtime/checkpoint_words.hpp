// SPDX-License-Identifier: Apache-2.0
// runtime/checkpoint_words.hpp — what launcher and ranks say to each other about checkpoints, as text in
// PMIX_JOB_CTRL_ID (docs/design/checkpoint.md).  A request is "STEP ROUND"; its answer is the same text, and behind it
// the reason if the step cannot be done.
#pragma once
#include <array>
#include <string_view>

namespace runtime {

/// In the order of CheckpointStep::Kind.
inline constexpr std::array<std::string_view, 3> kCheckpointSteps{"quiesce", "checkpoint", "resume"};

inline constexpr std::string_view kJoinsCheckpoints = "join";    ///< of a rank, before it can be asked
inline constexpr std::string_view kLeavesCheckpoints = "leave";  ///< it has nothing to quiesce any more

}  // namespace runtime
