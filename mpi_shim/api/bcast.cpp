// SPDX-License-Identifier: Apache-2.0
// MPI_Barrier and MPI_Bcast.
#include "mpi_shim/coll/bcast.hpp"
#include "mpi_shim/api/collective.hpp"
#include "mpi_shim/coll/barrier.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::Form;
using mpi_shim::coll::Schedule;

int barrier(const Form& form, MPI_Comm comm) {
  Call call{form.function};
  if (call.failed()) return call.error();
  auto* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  return form.run(call, *communicator, [&](Schedule& schedule) { build_barrier(schedule, *communicator); });
}

template <class Count>
int bcast(const Form& form, void* buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  Call call{form.function};
  if (call.failed()) return call.error();
  auto* const communicator = call.comm(comm);
  const auto message = call.buffer(buffer, count, datatype);
  call.root(communicator, root);
  if (call.failed()) return call.error();
  return form.run(call, *communicator,
                  [&](Schedule& schedule) { build_bcast(schedule, *communicator, message, root); });
}

}  // namespace

OPAL_MPI_FUNCTION(int, Barrier, (MPI_Comm comm)) { return barrier(Form{"MPI_Barrier"}, comm); }
OPAL_MPI_FUNCTION(int, Ibarrier, (MPI_Comm comm, MPI_Request* request)) {
  return barrier(Form{"MPI_Ibarrier", Form::Kind::nonblocking, request}, comm);
}
OPAL_MPI_FUNCTION(int, Barrier_init, (MPI_Comm comm, MPI_Info /*info*/, MPI_Request* request)) {
  return barrier(Form{"MPI_Barrier_init", Form::Kind::persistent, request}, comm);
}

#define OPAL_MPI_BCAST(Count, Displacement) void *buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm
OPAL_MPI_COLLECTIVE(Bcast, bcast, OPAL_MPI_BCAST, buffer, count, datatype, root, comm)
