// SPDX-License-Identifier: Apache-2.0
// MPI_Gather, Gatherv, Scatter, Scatterv, Allgather, Allgatherv.
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include <optional>

#include "mpi_shim/api/coll/blocks.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace mpi_shim::api {
namespace {

/// The block of this process, or nullopt for MPI_IN_PLACE.  Fails the call if MPI_IN_PLACE is not allowed.
std::optional<p2p::Buffer> own_block(Call& call, const void* buffer, MPI_Count count, MPI_Datatype datatype,
                                     bool may_be_in_place) {
  if (buffer == MPI_IN_PLACE) {
    if (!may_be_in_place) call.fail_in_place();
    return std::nullopt;
  }
  return call.buffer(buffer, count, datatype);
}

using Rooted = coll::Rooted;

/// A gather or scatter with a root.  `buf`: the block of this process; not used at the root of an
/// intercommunicator.  `make_blocks`: the blocks of all ranks, at the root only.
template <class MakeBlocks>
int rooted(Call& call, const Form& form, const void* buf, MPI_Count count, MPI_Datatype datatype, int root,
           MPI_Comm handle, Rooted kind, MakeBlocks&& make_blocks) {
  comm::Communicator* const comm = call.comm(handle);
  call.root(comm, root);
  const RootPart part{*comm, root};
  const bool has_block = part.takes_part && !(comm->is_inter() && part.is_root);
  const std::optional<p2p::Buffer> own =
      has_block ? own_block(call, buf, count, datatype, part.is_root) : p2p::Buffer{};
  const coll::Blocks blocks = part.is_root ? make_blocks(call, comm->remote_size()) : coll::Blocks{};
  return form.run(
      call, *comm, [&](coll::HostTeam& team) { return team.rooted(kind, own, blocks, root); },
      [&](auto& schedule) { build_rooted(schedule, kind, own, blocks, root); },
      [&](auto& schedule, const auto& sides) {
        build_inter_rooted(schedule, sides, kind.gathers(), *own, blocks, root);
      });
}

int gather(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
           MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return rooted(call, form, sendbuf, sendcount, sendtype, root, comm, {Rooted::Way::gather, Rooted::Sizes::equal},
                even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int gatherv(Call& call, const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return rooted(call, form, sendbuf, sendcount, sendtype, root, comm, {Rooted::Way::gather, Rooted::Sizes::any},
                listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

int scatter(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
            void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return rooted(call, form, recvbuf, recvcount, recvtype, root, comm, {Rooted::Way::scatter, Rooted::Sizes::equal},
                even_blocks(sendbuf, sendcount, sendtype));
}

template <class Count, class Displacement>
int scatterv(Call& call, const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* displs,
             MPI_Datatype sendtype, void* recvbuf, Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return rooted(call, form, recvbuf, recvcount, recvtype, root, comm, {Rooted::Way::scatter, Rooted::Sizes::any},
                listed_blocks(sendbuf, sendcounts, displs, sendtype));
}

template <class Build, class MakeBlocks>
int allgather_with(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                   MPI_Comm comm, Build build, MakeBlocks&& make_blocks) {
  comm::Communicator* const communicator = call.comm(comm);
  const std::optional<p2p::Buffer> own = own_block(call, sendbuf, sendcount, sendtype, !communicator->is_inter());
  const coll::Blocks blocks = make_blocks(call, communicator->remote_size());
  return form.run(
      call, *communicator, [&](coll::HostTeam& team) { return team.allgather(own, blocks); },
      [&](auto& schedule) { build(schedule, own, blocks); },
      [&](auto& schedule, const auto& sides) { build_inter_allgather(schedule, sides, *own, blocks); });
}

int allgather(Call& call, const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather_with(call, form, sendbuf, sendcount, sendtype, comm, coll::build_allgather,
                        even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int allgatherv(Call& call, const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
               const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather_with(call, form, sendbuf, sendcount, sendtype, comm, coll::build_allgatherv,
                        listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

}  // namespace

OPAL_MPI_COLLECTIVE(Gather, gather, gather)
OPAL_MPI_COLLECTIVE(Gatherv, gatherv, gatherv)
OPAL_MPI_COLLECTIVE(Scatter, scatter, scatter)
OPAL_MPI_COLLECTIVE(Scatterv, scatterv, scatterv)
OPAL_MPI_COLLECTIVE(Allgather, allgather, allgather)
OPAL_MPI_COLLECTIVE(Allgatherv, allgatherv, allgatherv)

}  // namespace mpi_shim::api
