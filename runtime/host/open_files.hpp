// SPDX-License-Identifier: Apache-2.0
// runtime/host/open_files.hpp — checks that launcher and daemon make before they start ranks: the limit of open files,
// and for the launcher /proc, other limits and system calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace runtime::launch {

/// Raises the soft limit of open files to the hard limit.  Returns the previous soft limit, which the ranks get; 0: the
/// call failed.
std::uint64_t raise_open_files();

/// Empty, or that `ranks` more ranks with `descriptors_per_rank` each are more than the limit allows beside what is
/// open now: libpmix would wait for ever for those that cannot connect.
std::string check_open_files(std::size_t ranks, std::size_t descriptors_per_rank);

/// Empty, or why the launcher would wait for ever here: /proc of another pid namespace, which never shows the end of a
/// rank; sched_getaffinity refused, which hwloc repeats until it succeeds.  Or why the launcher would be killed: limits
/// of file sizes and stacks that are too small.
std::string check_platform();

}  // namespace runtime::launch
