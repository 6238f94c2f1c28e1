// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/shared_memory.hpp — memory that ranks of one host share, for host teams and windows.
// Both functions: one thread per communicator at a time, no lock held.
#pragma once
#include <vector>

#include "mpi_shim/base/host_memory.hpp"
#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim {
class Job;
}

namespace mpi_shim::coll {

/// The ranks of `comm` on the host of this process, ascending; at least its own.
std::vector<int> ranks_here(Job& job, const comm::Communicator& comm);

/// Collective over `comm`; blocks.  The rank `leader` of this host, which may be this process, creates `size` bytes
/// (0: none), and this process maps them as `memory`.  `memory` stays empty if that fails; the process in which it
/// failed logs a warning with `purpose`.  So the processes have to find out whether all of them have the memory.
/// Returns an error class.
int share_memory(comm::Communicator& comm, int leader, std::uint64_t size, const char* purpose, HostMemory& memory);

}  // namespace mpi_shim::coll
