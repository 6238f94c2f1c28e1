// SPDX-License-Identifier: Apache-2.0
// Reductions: MPI_Reduce, Allreduce, Reduce_scatter, Reduce_scatter_block, Scan, Exscan.
#include "mpi_shim/coll/algorithms/algorithms.hpp"

#include <vector>

#include "mpi_shim/api/coll/collective.hpp"

namespace mpi_shim::api {
namespace {

int reduce(Call& call, const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
           MPI_Op handle, int root, MPI_Comm comm) {
  comm::Communicator* const communicator = call.comm(comm);
  call.root(communicator, root);
  const RootPart part{*communicator, root};
  const bool sends = part.takes_part && !(communicator->is_inter() && part.is_root);
  const bool in_place = sends && sendbuf == MPI_IN_PLACE;
  if (in_place && !part.is_root) call.fail_in_place();
  const p2p::Buffer in = sends ? call.buffer(in_place ? recvbuf : sendbuf, count, datatype) : p2p::Buffer{};
  const p2p::Buffer out = part.is_root ? call.buffer(recvbuf, count, datatype) : p2p::Buffer{};
  const auto* op = part.takes_part ? call.op(handle, datatype) : nullptr;
  const auto share = [&](coll::HostTeam& team) { return team.reduce(in, out, *op, root); };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_reduce(schedule, in, out, *op, root); },
      [&](auto& schedule, const auto& sides) {
        if (op != nullptr) build_inter_reduce(schedule, sides, in, out, *op, root);
      });
}

/// The checked arguments that MPI_Allreduce, MPI_Scan and MPI_Exscan have in common.
struct Everywhere {
  p2p::Buffer in;
  p2p::Buffer out;
  const op::Op* op;

  Everywhere(Call& call, const void* sendbuf, const void* recvbuf, MPI_Count count, MPI_Datatype datatype,
             MPI_Op handle)
      : in(call.buffer(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, datatype)),
        out(call.buffer(recvbuf, count, datatype)),
        op(call.op(handle, datatype)) {}
};

int allreduce(Call& call, const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
              MPI_Op op, MPI_Comm comm) {
  comm::Communicator* const communicator = call.comm(comm);
  const Everywhere it{call, sendbuf, recvbuf, count, datatype, op};
  if (communicator->is_inter() && sendbuf == MPI_IN_PLACE) call.fail_in_place();
  const auto share = [&](coll::HostTeam& team) { return team.allreduce(it.in, it.out, *it.op); };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_allreduce(schedule, it.in, it.out, *it.op); },
      [&](auto& schedule, const auto& sides) { build_inter_allreduce(schedule, sides, it.in, it.out, *it.op); });
}

int scan(Call& call, const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
         MPI_Op op, MPI_Comm comm, bool exclusive) {
  comm::Communicator* const communicator = call.intracomm(comm);
  // Rank 0 of an exclusive scan has no result, and its recvbuf is not significant: as in place, but nothing is written.
  const bool has_result = !exclusive || communicator->rank() != 0;
  const Everywhere it{call, sendbuf, has_result || sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, datatype, op};
  const auto share = [&](coll::HostTeam& team) { return team.scan(it.in, it.out, *it.op, exclusive); };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_scan(schedule, it.in, it.out, *it.op, exclusive); },
      [](auto&, const auto&) {});  // there are no scans between two groups
}

/// MPI_Reduce_scatter and _block; `count_of(rank)`: the number of result elements for a rank.
template <class CountOf>
int scattered(Call& call, const Form& form, const void* sendbuf, void* recvbuf, CountOf&& count_of,
              MPI_Datatype datatype, MPI_Op handle, MPI_Comm comm) {
  comm::Communicator* const communicator = call.comm(comm);
  std::vector<std::uint64_t> counts;
  MPI_Count total = 0;
  for (int rank = 0; rank < communicator->size(); ++rank) {
    const MPI_Count count = count_of(rank);
    if (count < 0) call.fail_count(count);
    counts.push_back(static_cast<std::uint64_t>(count));
    total += count;
  }
  if (communicator->is_inter() && sendbuf == MPI_IN_PLACE) call.fail_in_place();
  const p2p::Buffer in = call.buffer(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, total, datatype);
  const p2p::Buffer out =
      call.buffer(recvbuf, static_cast<MPI_Count>(counts[static_cast<std::size_t>(communicator->rank())]), datatype);
  const auto* op = call.op(handle, datatype);
  const auto share = [&](coll::HostTeam& team) { return team.reduce_scatter(in, out, counts, *op); };
  return form.run(
      call, *communicator, share, [&](auto& schedule) { build_reduce_scatter(schedule, in, out, counts, *op); },
      [&](auto& schedule, const auto& sides) { build_inter_reduce_scatter(schedule, sides, in, out, counts, *op); });
}

template <class Count>
int reduce_scatter(Call& call, const Form& form, const void* sendbuf, void* recvbuf, const Count* recvcounts,
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  call.pointer(recvcounts, "recvcounts");
  return scattered(
      call, form, sendbuf, recvbuf, [&](int rank) { return MPI_Count{recvcounts[rank]}; }, datatype, op, comm);
}

int reduce_scatter_block(Call& call, const Form& form, const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return scattered(
      call, form, sendbuf, recvbuf, [&](int) { return recvcount; }, datatype, op, comm);
}

}  // namespace

OPAL_MPI_COLLECTIVE(Reduce, reduce, reduce)
OPAL_MPI_COLLECTIVE(Allreduce, allreduce, allreduce)
OPAL_MPI_COLLECTIVE(Scan, scan, scan, false)
OPAL_MPI_COLLECTIVE(Exscan, exscan, scan, true)
OPAL_MPI_COLLECTIVE(Reduce_scatter, reduce_scatter, reduce_scatter)
OPAL_MPI_COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, reduce_scatter_block)

}  // namespace mpi_shim::api
