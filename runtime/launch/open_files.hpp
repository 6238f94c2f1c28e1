// SPDX-License-Identifier: Apache-2.0
// runtime/launch/open_files.hpp — the limit of open files: a launcher needs three per rank and one per client.
#pragma once
#include <cstdint>

namespace runtime::launch {

/// As many as the system lets this process have.  Returns the limit before, for the ranks; 0 when it is unchanged.
std::uint64_t raise_open_files();

}  // namespace runtime::launch
