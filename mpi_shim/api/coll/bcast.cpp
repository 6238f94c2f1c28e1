// SPDX-License-Identifier: Apache-2.0
// MPI_Barrier and MPI_Bcast, in their blocking, non-blocking and persistent forms.
#include "mpi_shim/api/coll/collective.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"

namespace mpi_shim::api {
namespace {

int barrier(Call& call, const Form& form, MPI_Comm comm) {
  auto* const communicator = call.comm(comm);
  const auto share = [](coll::HostTeam& team) { return team.barrier(); };
  return form.run(call, *communicator, share, coll::build_barrier, coll::build_inter_barrier);
}

int bcast(Call& call, const Form& form, void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  auto* const communicator = call.comm(comm);
  call.root(communicator, root);
  const auto message = root == MPI_PROC_NULL ? p2p::Buffer{} : call.buffer(buffer, count, datatype);
  const auto share = [&](coll::HostTeam& team) { return team.bcast(message, root); };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_bcast(schedule, message, root); },
      [&](auto& schedule, const auto& sides) { build_inter_bcast(schedule, sides, message, root); });
}

}  // namespace

OPAL_MPI_COLLECTIVE_OF(Barrier, barrier, , barrier)
OPAL_MPI_COLLECTIVE(Bcast, bcast, bcast)

}  // namespace mpi_shim::api
