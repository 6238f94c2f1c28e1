// SPDX-License-Identifier: Apache-2.0
// Intercommunicators: making, merging and asking.
#include "mpi_shim/comm/creation/intercomm.hpp"

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::comm::Communicator;

/// The handler of a communicator that has no parent to take it from.
std::shared_ptr<const mpi_shim::comm::Errhandler> handler_of(Call& call, MPI_Errhandler handle) {
  auto handler = mpi_shim::find_errhandler(handle);
  if (handler == nullptr || handler->kind == mpi_shim::comm::Errhandler::Kind::win_function) {
    call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler for communicators");
  }
  return handler;
}

int hand_out_with(Call& call, int error, Communicator* made,
                  const std::shared_ptr<const mpi_shim::comm::Errhandler>& handler, MPI_Comm* newcomm) {
  if (made != nullptr) made->errhandler.set(handler);
  return hand_out(call, error, made, newcomm);
}

}  // namespace

// Nobody is spawned yet, so nobody has a parent.
OPAL_MPI_FUNCTION(int, Comm_get_parent, (MPI_Comm * parent)) {
  Call call{"MPI_Comm_get_parent"};
  call.pointer(parent, "parent");
  if (call.failed()) return call.error();
  *parent = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_create_from_group,
                  (MPI_Group group, const char* stringtag, MPI_Info info, MPI_Errhandler errhandler,
                   MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_create_from_group"};
  if (call.failed()) return call.error();
  const auto members = call.group(group);
  const auto handler = handler_of(call, errhandler);
  call.info(info);
  call.pointer(stringtag, "stringtag");
  call.pointer(newcomm, "newcomm");
  if (call.failed()) return call.error();
  Communicator* made = nullptr;
  if (members->size() == 0) return hand_out(call, MPI_SUCCESS, made, newcomm);
  if (members->rank() == MPI_UNDEFINED) return call.fail(MPI_ERR_GROUP, "this process is not in argument group");
  const int error = create_from_group(call.process().communicators(), members, stringtag, made);
  return hand_out_with(call, error, made, handler, newcomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_create_from_groups,
                  (MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader,
                   const char* stringtag, MPI_Info info, MPI_Errhandler errhandler, MPI_Comm* newintercomm)) {
  Call call{"MPI_Intercomm_create_from_groups"};
  if (call.failed()) return call.error();
  const auto local = call.group(local_group, "local_group");
  const auto remote = call.group(remote_group, "remote_group");
  const auto handler = handler_of(call, errhandler);
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
  Communicator* made = nullptr;
  const int error =
      connect_groups(call.process().communicators(), local, local_leader, remote, remote_leader, stringtag, made);
  return hand_out_with(call, error, made, handler, newintercomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_create,
                  (MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                   MPI_Comm* newintercomm)) {
  Call call{"MPI_Intercomm_create"};
  if (call.failed()) return call.error();
  Communicator* const local = call.intracomm(local_comm, "local_comm");
  if (!call.failed() && (local_leader < 0 || local_leader >= local->size())) {
    call.fail(MPI_ERR_RANK, "argument local_leader is " + std::to_string(local_leader) + ", but local_comm has " +
                                std::to_string(local->size()) + " processes");
  }
  call.send_tag(tag);
  call.pointer(newintercomm, "newintercomm");
  if (call.failed()) return call.error();
  Communicator* peer = nullptr;
  if (local->rank() == local_leader) {
    peer = call.comm(peer_comm, "peer_comm");
    if (!call.failed() && (remote_leader < 0 || remote_leader >= peer->remote_size())) {
      call.fail(MPI_ERR_RANK, "argument remote_leader is " + std::to_string(remote_leader) + ", but peer_comm has " +
                                  std::to_string(peer->remote_size()) + " processes");
    }
  }
  if (call.failed()) return call.error();
  Communicator* made = nullptr;
  const int error = connect_sides(call.process().communicators(), *local, local_leader, peer, remote_leader, tag, made);
  return hand_out(call, error, made, newintercomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm* newintracomm)) {
  Call call{"MPI_Intercomm_merge"};
  if (call.failed()) return call.error();
  Communicator* const parent = call.intercomm(intercomm, "intercomm");
  call.pointer(newintracomm, "newintracomm");
  if (call.failed()) return call.error();
  Communicator* made = nullptr;
  const int error = merge_sides(call.process().communicators(), *parent, high != 0, made);
  return hand_out(call, error, made, newintracomm);
}

OPAL_MPI_FUNCTION(int, Comm_test_inter, (MPI_Comm comm, int* flag)) {
  Call call{"MPI_Comm_test_inter"};
  if (call.failed()) return call.error();
  const Communicator* const communicator = call.comm(comm);
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  *flag = communicator->is_inter();
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_remote_size, (MPI_Comm comm, int* size)) {
  Call call{"MPI_Comm_remote_size"};
  if (call.failed()) return call.error();
  const Communicator* const communicator = call.intercomm(comm);
  call.pointer(size, "size");
  if (call.failed()) return call.error();
  *size = communicator->remote_size();
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_remote_group, (MPI_Comm comm, MPI_Group* group)) {
  Call call{"MPI_Comm_remote_group"};
  if (call.failed()) return call.error();
  const Communicator* const communicator = call.intercomm(comm);
  call.pointer(group, "group");
  if (call.failed()) return call.error();
  *group = mpi_shim::new_handle(communicator->sides().other);
  return MPI_SUCCESS;
}
