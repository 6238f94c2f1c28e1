// SPDX-License-Identifier: Apache-2.0
// MPI_Alltoall, Alltoallv, Alltoallw, and the neighbourhood collectives.
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include "mpi_shim/api/coll/blocks.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace mpi_shim::api {
namespace {

// Selects the partners of exchange().
enum class All { even, uneven };  ///< all ranks of the communicator; even: all blocks have the same size
struct Neighbourhood {};          ///< the neighbours in the communicator's topology

template <class MakeOut, class MakeIn>
int exchange(Call& call, const Form& form, const void* sendbuf, const void* /*recvbuf*/, MPI_Comm comm, All with,
             MakeOut&& make_out, MakeIn&& make_in) {
  comm::Communicator* const communicator = call.comm(comm);
  const bool in_place = sendbuf == MPI_IN_PLACE;
  if (in_place && communicator->is_inter()) call.fail_in_place();
  const coll::Blocks out = in_place ? coll::Blocks{} : make_out(call, communicator->remote_size());
  const coll::Blocks in = make_in(call, communicator->remote_size());
  const auto share = [&](coll::HostTeam& team) {
    return (team.*(with == All::even ? &coll::HostTeam::alltoall : &coll::HostTeam::alltoallv))(in_place ? in : out,
                                                                                                in);
  };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_alltoall(schedule, in_place ? in : out, in); },
      [&](auto& schedule, const auto& sides) { build_inter_alltoall(schedule, sides, out, in); });
}

template <class MakeOut, class MakeIn>
int exchange(Call& call, const Form& form, const void* sendbuf, const void* recvbuf, MPI_Comm comm,
             Neighbourhood /*with*/, MakeOut&& make_out, MakeIn&& make_in) {
  comm::Communicator* const communicator = call.comm(comm);
  if (communicator->topology == nullptr) {
    call.fail(MPI_ERR_TOPOLOGY, "argument comm has no topology");
  }
  if (sendbuf == MPI_IN_PLACE || recvbuf == MPI_IN_PLACE) call.fail_in_place();
  const comm::Neighbours neighbours = neighbours_of(*communicator->topology, communicator->rank());
  const coll::Blocks out = make_out(call, static_cast<int>(neighbours.destinations.size()));
  const coll::Blocks in = make_in(call, static_cast<int>(neighbours.sources.size()));
  return form.run(call, *communicator,
                  [&](coll::Schedule& schedule) { build_neighbour_alltoall(schedule, neighbours, out, in); });
}

template <class With>
int alltoall(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, With with) {
  return exchange(call, form, sendbuf, recvbuf, comm, with, even_blocks(sendbuf, sendcount, sendtype),
                  even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement, class With>
int alltoallv(Call& call, const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              MPI_Datatype sendtype, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              MPI_Datatype recvtype, MPI_Comm comm, With with) {
  return exchange(call, form, sendbuf, recvbuf, comm, with, listed_blocks(sendbuf, sendcounts, sdispls, sendtype),
                  listed_blocks(recvbuf, recvcounts, rdispls, recvtype));
}

template <class Count, class Displacement, class With>
int alltoallw(Call& call, const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              const MPI_Datatype* recvtypes, MPI_Comm comm, With with) {
  return exchange(call, form, sendbuf, recvbuf, comm, with, typed_blocks(sendbuf, sendcounts, sdispls, sendtypes),
                  typed_blocks(recvbuf, recvcounts, rdispls, recvtypes));
}

/// As even_blocks(), but the block is the same for every neighbour (MPI_Neighbor_allgather).
auto repeated(const void* base, MPI_Count count, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    return coll::Blocks(static_cast<std::size_t>(number), call.buffer(base, count, datatype));
  };
}

int neighbor_allgather(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                       void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(call, form, sendbuf, recvbuf, comm, Neighbourhood{}, repeated(sendbuf, sendcount, sendtype),
                  even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int neighbor_allgatherv(Call& call, const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype,
                        void* recvbuf, const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype,
                        MPI_Comm comm) {
  return exchange(call, form, sendbuf, recvbuf, comm, Neighbourhood{}, repeated(sendbuf, sendcount, sendtype),
                  listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

}  // namespace

OPAL_MPI_COLLECTIVE(Alltoall, alltoall, alltoall, All::even)
OPAL_MPI_COLLECTIVE(Alltoallv, alltoallv, alltoallv, All::uneven)
OPAL_MPI_COLLECTIVE(Alltoallw, alltoallw, alltoallw, All::uneven)
OPAL_MPI_COLLECTIVE(Neighbor_alltoall, neighbor_alltoall, alltoall, Neighbourhood{})
OPAL_MPI_COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv, alltoallv, Neighbourhood{})
OPAL_MPI_COLLECTIVE(Neighbor_alltoallw, neighbor_alltoallw, alltoallw, Neighbourhood{})
OPAL_MPI_COLLECTIVE(Neighbor_allgather, neighbor_allgather, neighbor_allgather)
OPAL_MPI_COLLECTIVE(Neighbor_allgatherv, neighbor_allgatherv, neighbor_allgatherv)

}  // namespace mpi_shim::api
