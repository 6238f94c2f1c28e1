// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/creation/intercomm.hpp — making and merging intercommunicators, and communicators out of groups alone.
// All functions return an MPI error class.  Threads: as collectives: one thread per communicator at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim::comm {

class Communicators;

/// The processes of `local` and those of another communicator, whose leader is `remote_leader` of `peer`; what belongs
/// to the peer counts at the leader only.  Collective over both sides.
int connect_sides(Communicators& communicators, Communicator& local, int local_leader, Communicator* peer,
                  int remote_leader, int tag, Communicator*& made);

/// The processes of both sides in one group, those of the side with `high` last.  Collective over both sides.
int merge_sides(Communicators& communicators, Communicator& parent, bool high, Communicator*& made);

/// Out of a group that all its members name; `tag` tells concurrent calls apart.  Collective over `group`.
int create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                      Communicator*& made);

/// Two groups that all members of both know at their leaders at least.  Collective over both.
int connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                   const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                   Communicator*& made);

}  // namespace mpi_shim::comm
