// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/creation.hpp — new communicators out of old ones; intercommunicators are in intercomm.hpp.
// All functions but create_group() are collective over `parent`.  They return an MPI error class; a null `made` means
// that this process is not in the new communicator.
// Threads: as collectives: one thread per communicator at a time.
#pragma once
#include <memory>
#include <string_view>

#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::comm {

class Communicators;

/// The same processes; attributes by their copy callbacks, error handler and topology as they are.
int duplicate(Communicators& communicators, Communicator& parent, Communicator*& made);

/// The same without waiting: the handle in `newcomm` names the communicator once the request is done.  An error class,
/// with `request` unset.
int start_duplicating(Communicators& communicators, Communicator& parent, MPI_Comm* newcomm, Request*& request);

/// Those with the same colour, ordered by key, then by rank in `parent`.  MPI_UNDEFINED: in none.
/// Of an intercommunicator: those of each side with the same colour; none if a side has nobody of that colour.
int split(Communicators& communicators, Communicator& parent, int color, int key, Communicator*& made);

/// The members of `group`, a subset of the parent's own side.
int create(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group,
           Communicator*& made);

/// Collective over `group` only, a subset of an intracommunicator.  `tag` tells concurrent calls apart.
int create_group(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group, int tag,
                 Communicator*& made);

}  // namespace mpi_shim::comm
