// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation.hpp — new communicators out of old ones.  All functions are collective over `parent`.
// They return an MPI error class; a null `made` means that this process is not in the new communicator.
// Threads: as collectives: one thread per communicator at a time.
#pragma once
#include <memory>

#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim {
class Process;
}

namespace mpi_shim::comm {

/// The same processes; attributes by their copy callbacks, error handler and topology as they are.
int duplicate(Process& process, Communicator& parent, Communicator*& made);

/// Those with the same colour, ordered by key, then by rank in `parent`.  MPI_UNDEFINED: in none.
int split(Process& process, Communicator& parent, int color, int key, Communicator*& made);

/// The members of `group`, a subset of the parent's.
int create(Process& process, Communicator& parent, const std::shared_ptr<const Group>& group, Communicator*& made);

}  // namespace mpi_shim::comm
