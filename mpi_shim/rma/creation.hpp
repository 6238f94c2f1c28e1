// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/creation.hpp — new windows.  Collective over `parent`; an MPI error class, the same in all processes.
// Threads: as collectives: one thread per communicator at a time.
#pragma once
#include "mpi_shim/info/info.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::rma {

struct Wish {
  Flavor flavor;
  void* base = nullptr;  ///< create only
  std::uint64_t size = 0;
  std::int64_t disp_unit = 1;
  bool contiguous = true;     ///< shared only: each rank's memory follows that of the rank before
  bool never_locked = false;  ///< no passive target: every access meets an owner that is inside MPI
  info::Info::Entries hints;
};

/// What MPI_Win_create, _allocate, _allocate_shared and _create_dynamic do.  Errors: MPI_ERR_NO_MEM,
/// MPI_ERR_RMA_SHARED (ranks that share no memory), those of communication.
int create(comm::Communicators& communicators, comm::Communicator& parent, const Wish& wish, Window*& made);

}  // namespace mpi_shim::rma
