// SPDX-License-Identifier: Apache-2.0
// MPI_Barrier and MPI_Bcast.
#include "mpi_shim/coll/algorithms/bcast.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::Form;
using mpi_shim::api::sides_of;
using mpi_shim::coll::HostTeam;
using mpi_shim::coll::Schedule;
using mpi_shim::p2p::Buffer;

int barrier(const Form& form, MPI_Comm comm) {
  Call call{form.function};
  auto* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  const auto share = [](HostTeam& team) { return team.barrier(); };
  return form.run(call, *communicator, share, [&](Schedule& schedule) {
    communicator->is_inter() ? build_inter_barrier(schedule, sides_of(*communicator)) : build_barrier(schedule);
  });
}

int bcast(const Form& form, void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  Call call{form.function};
  auto* const communicator = call.comm(comm);
  call.root(communicator, root);
  const auto message = root == MPI_PROC_NULL ? Buffer{} : call.buffer(buffer, count, datatype);
  if (call.failed()) return call.error();
  const auto share = [&](HostTeam& team) { return team.bcast(message, root); };
  return form.run(call, *communicator, share, [&](Schedule& schedule) {
    if (communicator->is_inter()) {
      build_inter_bcast(schedule, sides_of(*communicator), message, root);
    } else {
      build_bcast(schedule, message, root);
    }
  });
}

}  // namespace

OPAL_MPI_COLLECTIVE_OF(Barrier, barrier, , barrier)
OPAL_MPI_COLLECTIVE(Bcast, bcast, bcast)
