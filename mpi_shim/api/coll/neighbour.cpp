// SPDX-License-Identifier: Apache-2.0
// Neighbourhood collectives: MPI_Neighbor_allgather, allgatherv, alltoall, alltoallv, alltoallw.
#include "mpi_shim/coll/algorithms/neighbour.hpp"

#include "mpi_shim/api/coll/blocks.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::even_blocks;
using mpi_shim::api::Form;
using mpi_shim::api::listed_blocks;
using mpi_shim::api::typed_blocks;
using mpi_shim::coll::Blocks;
using mpi_shim::coll::Schedule;
using mpi_shim::comm::Communicator;
using mpi_shim::comm::Neighbours;

template <class MakeOut, class MakeIn>
int exchange(const Form& form, const void* sendbuf, const void* recvbuf, MPI_Comm comm, MakeOut&& make_out,
             MakeIn&& make_in) {
  Call call{form.function};
  Communicator* const communicator = call.comm(comm);
  if (!call.failed() && communicator->topology == nullptr) {
    call.fail(MPI_ERR_TOPOLOGY, "argument comm has no topology");
  }
  if (sendbuf == MPI_IN_PLACE || recvbuf == MPI_IN_PLACE) call.fail_in_place();
  if (call.failed()) return call.error();
  const Neighbours neighbours = neighbours_of(*communicator->topology, communicator->rank());
  const Blocks out = make_out(call, static_cast<int>(neighbours.destinations.size()));
  const Blocks in = make_in(call, static_cast<int>(neighbours.sources.size()));
  if (call.failed()) return call.error();
  return form.run(call, *communicator,
                  [&](Schedule& schedule) { build_neighbour_alltoall(schedule, neighbours, out, in); });
}

/// The same block for every neighbour.
auto repeated(const void* base, MPI_Count count, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    return Blocks(static_cast<std::size_t>(number), call.buffer(base, count, datatype));
  };
}

int neighbor_allgather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                       MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, recvbuf, comm, repeated(sendbuf, sendcount, sendtype),
                  even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int neighbor_allgatherv(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                        const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, recvbuf, comm, repeated(sendbuf, sendcount, sendtype),
                  listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

int neighbor_alltoall(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                      MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, recvbuf, comm, even_blocks(sendbuf, sendcount, sendtype),
                  even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int neighbor_alltoallv(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
                       MPI_Datatype sendtype, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
                       MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(form, sendbuf, recvbuf, comm, listed_blocks(sendbuf, sendcounts, sdispls, sendtype),
                  listed_blocks(recvbuf, recvcounts, rdispls, recvtype));
}

template <class Count>
int neighbor_alltoallw(const Form& form, const void* sendbuf, const Count* sendcounts, const MPI_Aint* sdispls,
                       const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts, const MPI_Aint* rdispls,
                       const MPI_Datatype* recvtypes, MPI_Comm comm) {
  return exchange(form, sendbuf, recvbuf, comm, typed_blocks(sendbuf, sendcounts, sdispls, sendtypes),
                  typed_blocks(recvbuf, recvcounts, rdispls, recvtypes));
}

}  // namespace

OPAL_MPI_COLLECTIVE(Neighbor_allgather, neighbor_allgather)
OPAL_MPI_COLLECTIVE(Neighbor_allgatherv, neighbor_allgatherv)
OPAL_MPI_COLLECTIVE(Neighbor_alltoall, neighbor_alltoall)
OPAL_MPI_COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv)
OPAL_MPI_COLLECTIVE(Neighbor_alltoallw, neighbor_alltoallw)
