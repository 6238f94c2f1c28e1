// SPDX-License-Identifier: Apache-2.0
// runtime/host/open_files.hpp — tests before the start of ranks: launcher and daemon test the limit of open files, the
// launcher also /proc, other limits and system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace runtime::launch {

/// Raises this process's soft limit of open files to the hard limit.  Returns the previous soft limit, for
/// SpawnPlan::open_files; 0 when it failed.
std::uint64_t raise_open_files();

/// Tests whether the limit of open files allows so many more `descriptors`, for `ranks` ranks.
/// Returns an empty text, or the problem: libpmix would wait for ever for a rank that cannot connect.
std::string check_open_files(std::size_t ranks, std::size_t descriptors);

/// Returns an empty text, or the problem that prevents a launch on this host:
///  - /proc of another pid namespace: it never shows the end of a rank;
///  - sched_getaffinity is refused: hwloc repeats the call for ever;
///  - the limit of file sizes or of the stack is too small: the launcher would be killed.
std::string check_platform();

}  // namespace runtime::launch
