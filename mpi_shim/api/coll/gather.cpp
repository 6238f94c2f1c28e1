// SPDX-License-Identifier: Apache-2.0
// MPI_Gather, Gatherv, Scatter, Scatterv, Allgather, Allgatherv.
#include "mpi_shim/coll/algorithms/gather.hpp"

#include <optional>

#include "mpi_shim/api/coll/blocks.hpp"
#include "mpi_shim/api/coll/collective.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::api::even_blocks;
using mpi_shim::api::Form;
using mpi_shim::api::listed_blocks;
using mpi_shim::api::RootPart;
using mpi_shim::api::sides_of;
using mpi_shim::coll::Blocks;
using mpi_shim::coll::build_allgather;
using mpi_shim::coll::build_allgatherv;
using mpi_shim::coll::build_gather;
using mpi_shim::coll::build_gatherv;
using mpi_shim::coll::build_scatter;
using mpi_shim::coll::build_scatterv;
using mpi_shim::coll::HostTeam;
using mpi_shim::coll::Schedule;
using mpi_shim::comm::Communicator;
using mpi_shim::p2p::Buffer;

/// A rank's own block; nothing where MPI_IN_PLACE says that it is in its place already.
std::optional<Buffer> own_block(Call& call, const void* buffer, MPI_Count count, MPI_Datatype datatype,
                                bool may_be_in_place) {
  if (buffer == MPI_IN_PLACE) {
    if (!may_be_in_place) call.fail_in_place();
    return std::nullopt;
  }
  return call.buffer(buffer, count, datatype);
}

// `build` and `share` below are the two ways of an operation: by messages, and through memory of the host.

/// What Form::run wants: the team's operation with these arguments.
template <class Share, class... Arguments>
auto sharing(Share share, const Arguments&... arguments) {
  return [share, &arguments...](HostTeam& team) { return (team.*share)(arguments...); };
}

/// The checked arguments of a gather or scatter with a root.
struct Rooted {
  Communicator* comm;
  std::optional<Buffer> own;  ///< this process's block; nothing: MPI_IN_PLACE
  Blocks blocks;              ///< of the root
};

template <class MakeBlocks>
Rooted rooted(Call& call, const void* buf, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm handle,
              MakeBlocks&& make_blocks) {
  Rooted with{};
  with.comm = call.comm(handle);
  call.root(with.comm, root);
  if (call.failed()) return with;
  const RootPart part{*with.comm, root};
  const bool has_block = part.takes_part && !(with.comm->is_inter() && part.is_root);
  with.own = has_block ? own_block(call, buf, count, datatype, part.is_root) : Buffer{};
  if (part.is_root) with.blocks = make_blocks(call, with.comm->remote_size());
  return with;
}

template <class Build, class Share, class MakeBlocks>
int gather_with(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int root,
                MPI_Comm comm, Build build, Share share, MakeBlocks&& make_blocks) {
  Call call{form.function};
  const Rooted with = rooted(call, sendbuf, sendcount, sendtype, root, comm, make_blocks);
  if (call.failed()) return call.error();
  return form.run(call, *with.comm, sharing(share, with.own, with.blocks, root), [&](Schedule& schedule) {
    if (with.comm->is_inter()) {
      build_inter_gather(schedule, sides_of(*with.comm), *with.own, with.blocks, root);
    } else {
      build(schedule, with.own, with.blocks, root);
    }
  });
}

int gather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
           MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather_with(form, sendbuf, sendcount, sendtype, root, comm, build_gather, &HostTeam::gather,
                     even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int gatherv(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return gather_with(form, sendbuf, sendcount, sendtype, root, comm, build_gatherv, &HostTeam::gatherv,
                     listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

template <class Build, class Share, class MakeBlocks>
int scatter_with(const Form& form, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                 Build build, Share share, MakeBlocks&& make_blocks) {
  Call call{form.function};
  const Rooted with = rooted(call, recvbuf, recvcount, recvtype, root, comm, make_blocks);
  if (call.failed()) return call.error();
  return form.run(call, *with.comm, sharing(share, with.blocks, with.own, root), [&](Schedule& schedule) {
    if (with.comm->is_inter()) {
      build_inter_scatter(schedule, sides_of(*with.comm), with.blocks, *with.own, root);
    } else {
      build(schedule, with.blocks, with.own, root);
    }
  });
}

int scatter(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter_with(form, recvbuf, recvcount, recvtype, root, comm, build_scatter, &HostTeam::scatter,
                      even_blocks(sendbuf, sendcount, sendtype));
}

template <class Count, class Displacement>
int scatterv(const Form& form, const void* sendbuf, const Count* sendcounts, const Displacement* displs,
             MPI_Datatype sendtype, void* recvbuf, Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return scatter_with(form, recvbuf, recvcount, recvtype, root, comm, build_scatterv, &HostTeam::scatterv,
                      listed_blocks(sendbuf, sendcounts, displs, sendtype));
}

template <class Build, class Share, class MakeBlocks>
int allgather_with(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, MPI_Comm comm,
                   Build build, Share share, MakeBlocks&& make_blocks) {
  Call call{form.function};
  Communicator* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  const std::optional<Buffer> own = own_block(call, sendbuf, sendcount, sendtype, !communicator->is_inter());
  const Blocks blocks = make_blocks(call, communicator->remote_size());
  if (call.failed()) return call.error();
  return form.run(call, *communicator, sharing(share, own, blocks), [&](Schedule& schedule) {
    if (communicator->is_inter()) {
      build_inter_allgather(schedule, sides_of(*communicator), *own, blocks);
    } else {
      build(schedule, own, blocks);
    }
  });
}

int allgather(const Form& form, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather_with(form, sendbuf, sendcount, sendtype, comm, build_allgather, &HostTeam::allgather,
                        even_blocks(recvbuf, recvcount, recvtype));
}

template <class Count, class Displacement>
int allgatherv(const Form& form, const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf,
               const Count* recvcounts, const Displacement* displs, MPI_Datatype recvtype, MPI_Comm comm) {
  return allgather_with(form, sendbuf, sendcount, sendtype, comm, build_allgatherv, &HostTeam::allgatherv,
                        listed_blocks(recvbuf, recvcounts, displs, recvtype));
}

}  // namespace

OPAL_MPI_COLLECTIVE(Gather, gather, gather)
OPAL_MPI_COLLECTIVE(Gatherv, gatherv, gatherv)
OPAL_MPI_COLLECTIVE(Scatter, scatter, scatter)
OPAL_MPI_COLLECTIVE(Scatterv, scatterv, scatterv)
OPAL_MPI_COLLECTIVE(Allgather, allgather, allgather)
OPAL_MPI_COLLECTIVE(Allgatherv, allgatherv, allgatherv)
