// SPDX-License-Identifier: Apache-2.0
// runtime/host/open_files.hpp — what a launcher needs of its surroundings: the limit of open files (three per rank
// and one per client), /proc, system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace runtime::launch {

/// As many as the system lets this process have.  Returns the limit before, for the ranks; 0 when it is unchanged.
std::uint64_t raise_open_files();

/// Empty, or that `ranks` more ranks with `each` descriptors are more than the limit allows beside what is open now:
/// libpmix would wait for ever for those that cannot connect.
std::string check_open_files(std::size_t ranks, std::size_t each);

/// Empty, or what of this process's surroundings would have it wait for ever: /proc of another pid namespace, by which
/// no end of a rank is seen; sched_getaffinity refused, which hwloc asks until it is answered.  Or what would kill it:
/// limits of file sizes and stacks that are too small.
std::string check_surroundings();

}  // namespace runtime::launch
