// SPDX-License-Identifier: Apache-2.0
// mpi_shim/info/environment.hpp — what MPI_INFO_ENV says about how this process was started.
#pragma once
#include <span>

#include "mpi_shim/info/info.hpp"

namespace mpi_shim::info {

/// The keys of the standard that are known here: command, argv, wdir, host, arch, and, when MPI runs, maxprocs (`size`;
/// 0: unknown) and thread_level.  `arguments`: those of main, the first one the command; empty: the kernel's record.
Info::Entries describe_environment(std::span<char* const> arguments, int size, int thread_level);

/// Makes MPI_INFO_ENV; once, while MPI is started.
void publish_environment(int size, int thread_level);

}  // namespace mpi_shim::info
