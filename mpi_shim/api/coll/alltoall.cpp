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
  if (call.failed()) return call.error();
  Communicator* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  const bool in_place = sendbuf == MPI_IN_PLACE;
  if (in_place && communicator->is_inter()) call.fail_in_place();
  const Blocks out = in_place ? Blocks{} : make_out(call, *communicator);
  const Blocks in = make_in(call, *communicator);
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

template <class Count>
int alltoall(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, comm, true,
      [&](Call& call, const Communicator& c) {
        return even_blocks(call, c.remote_size(), sendbuf, sendcount, sendtype);
      },
      [&](Call& call, const Communicator& c) {
        return even_blocks(call, c.remote_size(), recvbuf, recvcount, recvtype);
      });
}

template <class Count, class Displacement>
int alltoallv(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              MPI_Datatype sendtype, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange(
      form, sendbuf, comm, false,
      [&](Call& call, const Communicator& c) {
        return listed_blocks(call, c.remote_size(), sendbuf, sendcounts, sdispls, sendtype);
      },
      [&](Call& call, const Communicator& c) {
        return listed_blocks(call, c.remote_size(), recvbuf, recvcounts, rdispls, recvtype);
      });
}

template <class Count, class Displacement>
int alltoallw(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* sdispls,
              const MPI_Datatype* sendtypes, void* recvbuf, const Count* recvcounts, const Displacement* rdispls,
              const MPI_Datatype* recvtypes, MPI_Comm comm) {
  return exchange(
      form, sendbuf, comm, false,
      [&](Call& call, const Communicator& c) {
        return typed_blocks(call, c.remote_size(), sendbuf, sendcounts, sdispls, sendtypes);
      },
      [&](Call& call, const Communicator& c) {
        return typed_blocks(call, c.remote_size(), recvbuf, recvcounts, rdispls, recvtypes);
      });
}

}  // namespace

#define OPAL_MPI_ALLTOALL(Count, Displacement)                                                                        \
  const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount, MPI_Datatype recvtype, \
      MPI_Comm comm
OPAL_MPI_COLLECTIVE(Alltoall, alltoall, OPAL_MPI_ALLTOALL, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                    comm)

#define OPAL_MPI_ALLTOALLV(Count, Displacement)                                                                      \
  const void *sendbuf, const Count sendcounts[], const Displacement sdispls[], MPI_Datatype sendtype, void *recvbuf, \
      const Count recvcounts[], const Displacement rdispls[], MPI_Datatype recvtype, MPI_Comm comm
OPAL_MPI_COLLECTIVE(Alltoallv, alltoallv, OPAL_MPI_ALLTOALLV, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                    recvcounts, rdispls, recvtype, comm)

#define OPAL_MPI_ALLTOALLW(Count, Displacement)                                                                \
  const void *sendbuf, const Count sendcounts[], const Displacement sdispls[], const MPI_Datatype sendtypes[], \
      void *recvbuf, const Count recvcounts[], const Displacement rdispls[], const MPI_Datatype recvtypes[],   \
      MPI_Comm comm
OPAL_MPI_COLLECTIVE(Alltoallw, alltoallw, OPAL_MPI_ALLTOALLW, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                    recvcounts, rdispls, recvtypes, comm)
