// SPDX-License-Identifier: Apache-2.0
// Reductions: MPI_Reduce, Allreduce, Reduce_scatter, Reduce_scatter_block, Scan, Exscan.
#include "mpi_shim/coll/algorithms/reduce.hpp"

#include <vector>

#include "mpi_shim/api/coll/collective.hpp"

namespace mpi_shim::api {
namespace {

int reduce(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op handle,
           int root, MPI_Comm comm) {
  Call call{form.function};
  comm::Communicator* const communicator = call.comm(comm);
  call.root(communicator, root);
  if (call.failed()) return call.error();
  const RootPart part{*communicator, root};
  const bool sends = part.takes_part && !(communicator->is_inter() && part.is_root);
  const bool in_place = sends && sendbuf == MPI_IN_PLACE;
  if (in_place && !part.is_root) return call.fail_in_place();
  const p2p::Buffer in = sends ? call.buffer(in_place ? recvbuf : sendbuf, count, datatype) : p2p::Buffer{};
  const p2p::Buffer out = part.is_root ? call.buffer(recvbuf, count, datatype) : p2p::Buffer{};
  const auto* op = part.takes_part ? call.op(handle, datatype) : nullptr;
  if (call.failed()) return call.error();
  const auto share = [&](coll::HostTeam& team) { return team.reduce(in, out, *op, root); };
  return form.run(call, *communicator, share, [&](coll::Schedule& schedule) {
    if (op == nullptr) return;
    schedule.keep_op(*op);
    if (communicator->is_inter()) {
      build_inter_reduce(schedule, sides_of(*communicator), in, out, *op, root);
    } else {
      build_reduce(schedule, in, out, *op, root);
    }
  });
}

/// The checked arguments that MPI_Allreduce, MPI_Scan and MPI_Exscan have in common.
struct Everywhere {
  p2p::Buffer in;
  p2p::Buffer out;
  const op::Op* op;

  Everywhere(Call& call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op handle)
      : in(call.buffer(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, datatype)),
        out(call.buffer(recvbuf, count, datatype)),
        op(call.op(handle, datatype)) {}
};

int allreduce(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
              MPI_Comm comm) {
  Call call{form.function};
  comm::Communicator* const communicator = call.comm(comm);
  const Everywhere it{call, sendbuf, recvbuf, count, datatype, op};
  if (!call.failed() && communicator->is_inter() && sendbuf == MPI_IN_PLACE) call.fail_in_place();
  if (call.failed()) return call.error();
  const auto share = [&](coll::HostTeam& team) { return team.allreduce(it.in, it.out, *it.op); };
  return form.run(call, *communicator, share, [&](coll::Schedule& schedule) {
    schedule.keep_op(*it.op);
    if (communicator->is_inter()) {
      build_inter_allreduce(schedule, sides_of(*communicator), it.in, it.out, *it.op);
    } else {
      build_allreduce(schedule, it.in, it.out, *it.op);
    }
  });
}

int scan(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
         MPI_Comm comm, bool exclusive) {
  Call call{form.function};
  comm::Communicator* const communicator = call.intracomm(comm);
  const Everywhere it{call, sendbuf, recvbuf, count, datatype, op};
  if (call.failed()) return call.error();
  const auto share = [&](coll::HostTeam& team) { return team.scan(it.in, it.out, *it.op, exclusive); };
  return form.run(call, *communicator, share, [&](coll::Schedule& schedule) {
    schedule.keep_op(*it.op);
    build_scan(schedule, it.in, it.out, *it.op, exclusive);
  });
}

/// MPI_Reduce_scatter and _block; `count_of(rank)`: the number of result elements for a rank.
template <class CountOf>
int scattered(const Form& form, const void* sendbuf, void* recvbuf, CountOf&& count_of, MPI_Datatype datatype,
              MPI_Op handle, MPI_Comm comm) {
  Call call{form.function};
  comm::Communicator* const communicator = call.comm(comm);
  if (call.failed()) return call.error();
  std::vector<std::uint64_t> counts;
  MPI_Count total = 0;
  for (int rank = 0; rank < communicator->size(); ++rank) {
    const MPI_Count count = count_of(rank);
    if (count < 0) call.fail_count(count);
    counts.push_back(static_cast<std::uint64_t>(count));
    total += count;
  }
  if (communicator->is_inter() && sendbuf == MPI_IN_PLACE) call.fail_in_place();
  if (call.failed()) return call.error();
  const p2p::Buffer in = call.buffer(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, total, datatype);
  const p2p::Buffer out =
      call.buffer(recvbuf, static_cast<MPI_Count>(counts[static_cast<std::size_t>(communicator->rank())]), datatype);
  const auto* op = call.op(handle, datatype);
  if (call.failed()) return call.error();
  const auto share = [&](coll::HostTeam& team) { return team.reduce_scatter(in, out, counts, *op); };
  return form.run(call, *communicator, share, [&](coll::Schedule& schedule) {
    schedule.keep_op(*op);
    if (communicator->is_inter()) {
      build_inter_reduce_scatter(schedule, sides_of(*communicator), in, out, counts, *op);
    } else {
      build_reduce_scatter(schedule, in, out, counts, *op);
    }
  });
}

template <class Count>
int reduce_scatter(const Form& form, const void* sendbuf, void* recvbuf, const Count* recvcounts, MPI_Datatype datatype,
                   MPI_Op op, MPI_Comm comm) {
  if (recvcounts == nullptr) {
    Call call{form.function};
    call.pointer(recvcounts, "recvcounts");
    return call.error();
  }
  return scattered(
      form, sendbuf, recvbuf, [&](int rank) { return MPI_Count{recvcounts[rank]}; }, datatype, op, comm);
}

int reduce_scatter_block(const Form& form, const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return scattered(
      form, sendbuf, recvbuf, [&](int) { return recvcount; }, datatype, op, comm);
}

}  // namespace

OPAL_MPI_COLLECTIVE(Reduce, reduce, reduce)
OPAL_MPI_COLLECTIVE(Allreduce, allreduce, allreduce)
OPAL_MPI_COLLECTIVE(Scan, scan, scan, false)
OPAL_MPI_COLLECTIVE(Exscan, exscan, scan, true)
OPAL_MPI_COLLECTIVE(Reduce_scatter, reduce_scatter, reduce_scatter)
OPAL_MPI_COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, reduce_scatter_block)

}  // namespace mpi_shim::api
