// SPDX-License-Identifier: Apache-2.0
// Intercommunicators: creation, merge and queries.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::api {
// Spawning is not supported, so no process has a parent.
OPAL_MPI_FUNCTION(int, Comm_get_parent, (MPI_Comm * parent)) {
  return Call{"MPI_Comm_get_parent"}.answer(parent, "parent", [] { return MPI_COMM_NULL; });
}

OPAL_MPI_FUNCTION(int, Comm_create_from_group,
                  (MPI_Group group, const char* stringtag, MPI_Info info, MPI_Errhandler errhandler,
                   MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_create_from_group"};
  const auto members = call.group(group);
  const auto handler = call.errhandler(errhandler, comm::Errhandler::Kind::comm_function);
  call.info(info);
  call.pointer(stringtag, "stringtag");
  call.pointer(newcomm, "newcomm");
  if (call.failed()) return call.error();
  if (members->size() == 0) return hand_out(call, {}, newcomm);
  if (members->rank() == MPI_UNDEFINED) return call.fail(MPI_ERR_GROUP, "this process is not in argument group");
  return hand_out(call, create_from_group(call.process().communicators(), members, stringtag, handler), newcomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_create_from_groups,
                  (MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader,
                   const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newintercomm)) {
  Call call{"MPI_Intercomm_create_from_groups"};
  const auto local = call.group(local_group, "local_group");
  const auto remote = call.group(remote_group, "remote_group");
  const auto handler = call.errhandler(errhandler, comm::Errhandler::Kind::comm_function);
  call.info(info);
  call.pointer(stringtag, "stringtag");
  call.pointer(newintercomm, "newintercomm");
  if (call.failed()) return call.error();
  if (local->rank() == MPI_UNDEFINED) return call.fail(MPI_ERR_GROUP, "this process is not in argument local_group");
  if (local_leader < 0 || local_leader >= local->size()) {
    return call.fail(MPI_ERR_RANK, "argument local_leader is not in argument local_group");
  }
  if (local->rank() == local_leader && (remote_leader < 0 || remote_leader >= remote->size())) {
    return call.fail(MPI_ERR_RANK, "argument remote_leader is not in argument remote_group");
  }
  return hand_out(
      call,
      connect_groups(call.process().communicators(), local, local_leader, remote, remote_leader, stringtag, handler),
      newintercomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_create,
                  (MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                   MPI_Comm* newintercomm)) {
  Call call{"MPI_Intercomm_create"};
  comm::Communicator* const local = call.intracomm(local_comm, "local_comm");
  if (!call.failed() && (local_leader < 0 || local_leader >= local->size())) {
    call.fail(MPI_ERR_RANK, "argument local_leader is " + std::to_string(local_leader) + ", but local_comm has " +
                                std::to_string(local->size()) + " processes");
  }
  call.send_tag(tag);
  call.pointer(newintercomm, "newintercomm");
  if (call.failed()) return call.error();
  comm::Communicator* peer = nullptr;
  if (local->rank() == local_leader) {
    peer = call.comm(peer_comm, "peer_comm");
    if (!call.failed() && (remote_leader < 0 || remote_leader >= peer->remote_size())) {
      call.fail(MPI_ERR_RANK, "argument remote_leader is " + std::to_string(remote_leader) + ", but peer_comm has " +
                                  std::to_string(peer->remote_size()) + " processes");
    }
  }
  if (call.failed()) return call.error();
  return hand_out(call, connect_sides(call.process().communicators(), *local, local_leader, peer, remote_leader, tag),
                  newintercomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm* newintracomm)) {
  Call call{"MPI_Intercomm_merge"};
  comm::Communicator* const parent = call.intercomm(intercomm, "intercomm");
  call.pointer(newintracomm, "newintracomm");
  if (call.failed()) return call.error();
  return hand_out(call, merge_sides(call.process().communicators(), *parent, high != 0), newintracomm);
}

OPAL_MPI_FUNCTION(int, Comm_remote_size, (MPI_Comm comm, int* size)) {
  Call call{"MPI_Comm_remote_size"};
  const comm::Communicator* const communicator = call.intercomm(comm);
  return call.answer(size, "size", [&] { return communicator->remote_size(); });
}

OPAL_MPI_FUNCTION(int, Comm_remote_group, (MPI_Comm comm, MPI_Group* group)) {
  Call call{"MPI_Comm_remote_group"};
  const comm::Communicator* const communicator = call.intercomm(comm);
  return call.answer(group, "group", [&] { return new_handle(communicator->sides().other); });
}

}  // namespace mpi_shim::api
