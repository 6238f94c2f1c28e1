// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/creation.hpp — new communicators out of old ones and out of groups; creation.cpp, and
// intercomm.cpp for intercommunicators.  All functions are collective over `parent` unless they say otherwise.
// Threads: as collectives: one thread per communicator at a time.
#pragma once
#include <memory>
#include <string_view>

#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::comm {

/// The same processes; attributes by their copy callbacks, error handler and topology as they are.
Made duplicate(Communicators& communicators, Communicator& parent);

/// The same without waiting: the handle in `newcomm` names the communicator once the request is done.  An error class,
/// with `request` unset.
int start_duplicating(Communicators& communicators, Communicator& parent, MPI_Comm* newcomm, Request*& request);

/// Those with the same colour, ordered by key, then by rank in `parent`.  MPI_UNDEFINED: in none.
/// Of an intercommunicator: those of each side with the same colour; none if a side has no process of that colour.
Made split(Communicators& communicators, Communicator& parent, int color, int key);

/// The members of `group`, a subset of the parent's own side.
Made create(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group);

/// Collective over `group` only, a subset of an intracommunicator.  `tag` tells concurrent calls apart.
Made create_group(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group,
                  int tag);

/// Out of a group that all its members name; `tag` tells concurrent calls apart.  Collective over `group`.
Made create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                       std::shared_ptr<const Errhandler> errhandler);

/// The processes of `local` and those of another communicator, whose leader is `remote_leader` of `peer`; what belongs
/// to the peer counts at the leader only.  Collective over both sides.
Made connect_sides(Communicators& communicators, Communicator& local, int local_leader, Communicator* peer,
                   int remote_leader, int tag);

/// The processes of both sides in one group, those of the side with `high` last.  Collective over both sides.
Made merge_sides(Communicators& communicators, Communicator& parent, bool high);

/// Two groups that all members of both know at their leaders at least.  Collective over both.
Made connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                    const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                    std::shared_ptr<const Errhandler> errhandler);

}  // namespace mpi_shim::comm
