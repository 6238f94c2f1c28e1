// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/creation.hpp — creates windows.  Threads: as collectives: one thread per communicator at a time.
#pragma once
#include "mpi_shim/info/info.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::rma {

/// The parameters of a new window.
struct Wish {
  Flavor flavor;
  void* base = nullptr;        ///< Flavor::create only: the application's memory
  std::uint64_t size = 0;      ///< bytes of this rank's memory; 0 for dynamic
  std::int64_t disp_unit = 1;  ///< bytes
  bool contiguous = true;     ///< Flavor::shared only: the memory of each rank directly follows that of the rank before
  bool never_locked = false;  ///< hint no_locks: no passive-target epochs, so no helper thread is needed for the window
  info::Info::Entries hints;
};

/// MPI_Win_create, _allocate, _allocate_shared and _create_dynamic.  Collective over `parent`.  `made`: the new window
/// with the application's reference, or null after an error.  Returns an MPI error class, the same in all processes
/// unless communication fails: MPI_ERR_NO_MEM, MPI_ERR_RMA_SHARED (the ranks share no memory), those of communication.
int create(comm::Communicators& communicators, comm::Communicator& parent, const Wish& wish, Window*& made);

}  // namespace mpi_shim::rma
