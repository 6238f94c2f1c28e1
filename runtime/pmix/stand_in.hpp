// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/stand_in.hpp — takes the place of a rank that ended before it joined the job.
// libpmix waits for every rank of a host in what they do together, and counts out only a rank whose connection breaks:
// one that never connected would be awaited for ever.  So a process connects as that rank and ends.
#pragma once
#include <string_view>

namespace runtime::pmix {

/// As its argv[0] the launcher's own program, with the environment of the rank, is a stand-in.
inline constexpr std::string_view kStandInName = "opal-stand-in";

/// What that process does.
[[noreturn]] void stand_in() noexcept;

}  // namespace runtime::pmix
