// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/creation.hpp — creation of communicators from communicators and groups; creation.cpp, and
// intercomm.cpp for intercommunicators.
// All functions are collective over `parent` and block, unless they say otherwise.  The arguments are checked by the
// caller.  Result: see Made.
// Threads: one thread per communicator at a time.  Requires: the caller holds no lock.
#pragma once
#include <memory>
#include <string_view>

#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::comm {

/// MPI_Comm_dup.  Attributes are copied by their callbacks; error handler and topology are shared.
Made duplicate(Communicators& communicators, Communicator& parent);

/// MPI_Comm_idup: as duplicate(), without waiting.  Sets `newcomm` at once; the handle is valid when the request is
/// done.  Returns an error class; on an error `newcomm` and `request` are not set.
int start_duplicating(Communicators& communicators, Communicator& parent, MPI_Comm* newcomm, Request*& request);

/// MPI_Comm_split: the processes with the same colour, ordered by key, then by rank in `parent`.  A process with the
/// colour MPI_UNDEFINED gets none.  For an intercommunicator the processes of both sides with the same colour; none if
/// one side has no process of that colour.
Made split(Communicators& communicators, Communicator& parent, int color, int key);

/// MPI_Comm_create.  `group` is a subset of the parent's local group.
Made create(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group);

/// MPI_Comm_create_group.  `group` is a subset of the intracommunicator `parent`; collective over `group`.  `tag`
/// distinguishes concurrent calls.
Made create_group(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group,
                  int tag);

/// MPI_Comm_create_from_group.  Collective over `group`; `tag` distinguishes concurrent calls.
Made create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                       ErrhandlerRef errhandler);

/// MPI_Intercomm_create: connects `local` with the communicator of another leader, which has the rank `remote_leader`
/// in `peer`.  Only the rank `local_leader` of `local` uses `peer` and `remote_leader`.  Collective over both sides.
Made connect_sides(Communicators& communicators, Communicator& local, int local_leader, Communicator* peer,
                   int remote_leader, int tag);

/// MPI_Intercomm_merge: one group of both sides, the side with `high` last.  Collective over both sides.
Made merge_sides(Communicators& communicators, Communicator& parent, bool high);

/// MPI_Intercomm_create_from_groups.  Only the rank `local_leader` of `local` uses `remote` and `remote_leader`.
/// Collective over both groups.
Made connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                    const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                    ErrhandlerRef errhandler);

}  // namespace mpi_shim::comm
