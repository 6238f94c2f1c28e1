// SPDX-License-Identifier: Apache-2.0
// Intercommunicators: making, merging and asking.
#include "mpi_shim/comm/intercomm.hpp"

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"

using mpi_shim::api::Call;
using mpi_shim::comm::Communicator;

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
  const int error = connect_sides(call.process(), *local, local_leader, peer, remote_leader, tag, made);
  return hand_out(call, error, made, newintercomm);
}

OPAL_MPI_FUNCTION(int, Intercomm_merge, (MPI_Comm intercomm, int high, MPI_Comm* newintracomm)) {
  Call call{"MPI_Intercomm_merge"};
  if (call.failed()) return call.error();
  Communicator* const parent = call.intercomm(intercomm, "intercomm");
  call.pointer(newintracomm, "newintracomm");
  if (call.failed()) return call.error();
  Communicator* made = nullptr;
  const int error = merge_sides(call.process(), *parent, high != 0, made);
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
