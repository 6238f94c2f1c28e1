// SPDX-License-Identifier: Apache-2.0
// MPI_Alltoall, Alltoallv, Alltoallw.
#include "mpi_shim/coll/algorithms/alltoall.hpp"

#include "mpi_shim/api/coll/blocks.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::even_blocks;
using mpi_shim::api::Form;
using mpi_shim::api::listed_blocks;
using mpi_shim::api::sides_of;
using mpi_shim::api::typed_blocks;
using mpi_shim::coll::Blocks;
using mpi_shim::coll::HostTeam;
using mpi_shim::coll::Schedule;
using mpi_shim::comm::Communicator;

/// `even`: all blocks have the same size.
template <class MakeOut, class MakeIn>
int exchange(const Form& form, const void* sendbuf, MPI_Comm comm, bool even, MakeOut&& make_out, MakeIn&& make_in) {
  Call call{form.function};
  Communicator* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  const bool in_place = sendbuf == MPI_IN_PLACE;
  if (in_place && communicator->is_inter()) call.fail_in_place();
  const Blocks out = in_place ? Blocks{} : make_out(call, communicator->remote_size());
  const Blocks in = make_in(call, communicator->remote_size());
  if (call.failed()) return call.error();
  const auto share = [&](HostTeam& team) {
    return (team.*(even ? &HostTeam::alltoall : &HostTeam::alltoallv))(in_place ? in : out, in);
  };
  return form.run(call, *communicator, share, [&](Schedule& schedule) {
    if (communicator->is_inter()) {
      build_inter_alltoall(schedule, sides_of(*communicator), out, in);
    } else if (in_place) {
      build_alltoall_in_place(schedule, in);
    } else {
      build_alltoall(schedule, out, in);
    }
  });
}

int alltoall(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, comm, true, even_blocks(sendbuf, sendcount, sendtype),
                  even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int alltoallv(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              MPI_Datatype sendtype, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, comm, false, listed_blocks(sendbuf, sendcounts, sdispls, sendtype),
                  listed_blocks(recvbuf, recvcounts, rdispls, recvtype));
}

template <class Count, class Displacement>
int alltoallw(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              const MPI_Datatype* recvtypes, MPI_Comm comm) {
  return exchange(form, sendbuf, comm, false, typed_blocks(sendbuf, sendcounts, sdispls, sendtypes),
                  typed_blocks(recvbuf, recvcounts, rdispls, recvtypes));
}

}  // namespace

OPAL_MPI_COLLECTIVE(Alltoall, alltoall)
OPAL_MPI_COLLECTIVE(Alltoallv, alltoallv)
OPAL_MPI_COLLECTIVE(Alltoallw, alltoallw)
