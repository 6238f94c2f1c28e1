// SPDX-License-Identifier: Apache-2.0
// Intercommunicators: creation, merge and queries.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::api {
// Spawning is not supported, so no process has a parent.
OPAL_MPI_CALL(Comm_get_parent, (Call & call, MPI_Comm* parent)) { return call.answer(parent, MPI_COMM_NULL); }

OPAL_MPI_CALL(Comm_create_from_group, (Call & call, MPI_Group group, const char* stringtag, MPI_Info info,
                                       MPI_Errhandler errhandler, MPI_Comm* newcomm)) {
  const auto members = call.group(group);
  const auto handler = call.errhandler(errhandler, comm::Errhandler::Kind::comm_function);
  call.info(info);
  call.pointer(stringtag, "stringtag");
  if (members->size() == 0) return hand_out(call, {}, newcomm);
  if (members->rank() == MPI_UNDEFINED) call.fail(MPI_ERR_GROUP, "this process is not in argument group");
  return hand_out(call, create_from_group(call.process().communicators(), members, stringtag, handler), newcomm);
}

OPAL_MPI_CALL(Intercomm_create_from_groups,
              (Call & call, MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader,
               const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newintercomm)) {
  const auto local = call.group(local_group, "local_group");
  const auto remote = call.group(remote_group, "remote_group");
  const auto handler = call.errhandler(errhandler, comm::Errhandler::Kind::comm_function);
  call.info(info);
  call.pointer(stringtag, "stringtag");
  if (local->rank() == MPI_UNDEFINED) call.fail(MPI_ERR_GROUP, "this process is not in argument local_group");
  call.rank("local_leader", local_leader, local->size(), "argument local_group");
  if (local->rank() == local_leader) {
    call.rank("remote_leader", remote_leader, remote->size(), "argument remote_group");
  }
  return hand_out(
      call,
      connect_groups(call.process().communicators(), local, local_leader, remote, remote_leader, stringtag, handler),
      newintercomm);
}

OPAL_MPI_CALL(Intercomm_create, (Call & call, MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm,
                                 int remote_leader, int tag, MPI_Comm* newintercomm)) {
  comm::Communicator* const local = call.intracomm(local_comm, "local_comm");
  call.rank("local_leader", local_leader, local->size(), "argument local_comm");
  call.send_tag(tag);
  comm::Communicator* peer = nullptr;
  if (local->rank() == local_leader) {
    peer = call.comm(peer_comm, "peer_comm");
    call.rank("remote_leader", remote_leader, peer->remote_size(), "argument peer_comm");
  }
  return hand_out(call, connect_sides(call.process().communicators(), *local, local_leader, peer, remote_leader, tag),
                  newintercomm);
}

OPAL_MPI_CALL(Intercomm_merge, (Call & call, MPI_Comm intercomm, int high, MPI_Comm* newintracomm)) {
  comm::Communicator* const parent = call.intercomm(intercomm, "intercomm");
  return hand_out(call, merge_sides(call.process().communicators(), *parent, high != 0), newintracomm);
}

OPAL_MPI_CALL(Comm_remote_size, (Call & call, MPI_Comm comm, int* size)) {
  return call.answer(size, call.intercomm(comm)->remote_size());
}

OPAL_MPI_CALL(Comm_remote_group, (Call & call, MPI_Comm comm, MPI_Group* group)) {
  return call.answer(group, new_handle(call.intercomm(comm)->sides().other));
}

}  // namespace mpi_shim::api
