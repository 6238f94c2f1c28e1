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
  if (call.failed()) return call.error();
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
Blocks repeated(Call& call, int count, const void* base, MPI_Count elements, MPI_Datatype datatype) {
  return Blocks(static_cast<std::size_t>(count), call.buffer(base, elements, datatype));
}

template <class Count>
int neighbor_allgather(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                       Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, recvbuf, comm,
      [&](Call& call, int count) { return repeated(call, count, sendbuf, sendcount, sendtype); },
      [&](Call& call, int count) { return even_blocks(call, count, recvbuf, recvcount, recvtype); });
}

template <class Count, class Displacement>
int neighbor_allgatherv(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                        const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, recvbuf, comm,
      [&](Call& call, int count) { return repeated(call, count, sendbuf, sendcount, sendtype); },
      [&](Call& call, int count) { return listed_blocks(call, count, recvbuf, recvcounts, displs, recvtype); });
}

template <class Count>
int neighbor_alltoall(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                      Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, recvbuf, comm,
      [&](Call& call, int count) { return even_blocks(call, count, sendbuf, sendcount, sendtype); },
      [&](Call& call, int count) { return even_blocks(call, count, recvbuf, recvcount, recvtype); });
}

template <class Count, class Displacement>
int neighbor_alltoallv(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
                       MPI_Datatype sendtype, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
                       MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, recvbuf, comm,
      [&](Call& call, int count) { return listed_blocks(call, count, sendbuf, sendcounts, sdispls, sendtype); },
      [&](Call& call, int count) { return listed_blocks(call, count, recvbuf, recvcounts, rdispls, recvtype); });
}

template <class Count>
int neighbor_alltoallw(const Form& form, const void* sendbuf, const Count* sendcounts, const MPI_Aint* sdispls,
                       const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts, const MPI_Aint* rdispls,
                       const MPI_Datatype* recvtypes, MPI_Comm comm) {
  return exchange(
      form, sendbuf, recvbuf, comm,
      [&](Call& call, int count) { return typed_blocks(call, count, sendbuf, sendcounts, sdispls, sendtypes); },
      [&](Call& call, int count) { return typed_blocks(call, count, recvbuf, recvcounts, rdispls, recvtypes); });
}

}  // namespace

#define OPAL_MPI_NEIGHBOR_EVEN(Count, Displacement)                                                                   \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount, MPI_Datatype recvtype, \
      MPI_Comm comm
OPAL_MPI_COLLECTIVE(Neighbor_allgather, neighbor_allgather, OPAL_MPI_NEIGHBOR_EVEN, sendbuf, sendcount, sendtype,
                    recvbuf, recvcount, recvtype, comm)
OPAL_MPI_COLLECTIVE(Neighbor_alltoall, neighbor_alltoall, OPAL_MPI_NEIGHBOR_EVEN, sendbuf, sendcount, sendtype, recvbuf,
                    recvcount, recvtype, comm)

#define OPAL_MPI_NEIGHBOR_ALLGATHERV(Count, Displacement)                                               \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[], \
      const Displacement displs[], MPI_Datatype recvtype, MPI_Comm comm
OPAL_MPI_COLLECTIVE(Neighbor_allgatherv, neighbor_allgatherv, OPAL_MPI_NEIGHBOR_ALLGATHERV, sendbuf, sendcount,
                    sendtype, recvbuf, recvcounts, displs, recvtype, comm)

#define OPAL_MPI_NEIGHBOR_ALLTOALLV(Count, Displacement)                                                             \
  const void *sendbuf, const Count sendcounts[], const Displacement sdispls[], MPI_Datatype sendtype, void *recvbuf, \
      const Count recvcounts[], const Displacement rdispls[], MPI_Datatype recvtype, MPI_Comm comm
OPAL_MPI_COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv, OPAL_MPI_NEIGHBOR_ALLTOALLV, sendbuf, sendcounts, sdispls,
                    sendtype, recvbuf, recvcounts, rdispls, recvtype, comm)

// Displacements are bytes here, and of one type in both forms.
#define OPAL_MPI_NEIGHBOR_ALLTOALLW(Count, Displacement)                                                   \
  const void *sendbuf, const Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], \
      void *recvbuf, const Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
OPAL_MPI_COLLECTIVE(Neighbor_alltoallw, neighbor_alltoallw, OPAL_MPI_NEIGHBOR_ALLTOALLW, sendbuf, sendcounts, sdispls,
                    sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm)
