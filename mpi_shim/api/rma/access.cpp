// SPDX-License-Identifier: Apache-2.0
// One-sided accesses: MPI_Put, Get, Accumulate, Get_accumulate, Fetch_and_op, Compare_and_swap and their R forms.
#include <string>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/request/done_requests.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {
namespace {

rma::Place place(Call& call, rma::Window* window, int rank, MPI_Aint displacement, MPI_Count count,
                 MPI_Datatype datatype) {
  call.target(window, rank);
  if (count < 0) call.fail_count(count);
  return {rank, displacement, static_cast<std::uint64_t>(count), call.type(datatype, "target_datatype")};
}

int finish(Call& call, int error, const char* what) {
  if (error == MPI_SUCCESS) [[likely]]
    return MPI_SUCCESS;
  if (error == MPI_ERR_RMA_SYNC) {
    call.fail(error, "no epoch is open in which the target may be accessed by this function");
  }
  if (error == MPI_ERR_RMA_RANGE) call.fail(error, "the accessed memory is not entirely inside the target's window");
  if (error == MPI_ERR_TRUNCATE) call.fail(error, std::string{what} + " is too small for the data");
  return call.finish(error);
}

// Below, `request` is null, or the argument of an R form (MPI_Rput etc.).

/// MPI_Put, MPI_Get and their R forms; `what` names the destination of the data, for a message about truncation.
int access(Call& call, const void* origin, MPI_Count count, MPI_Datatype datatype, int rank, MPI_Aint displacement,
           MPI_Count there, MPI_Datatype type_there, MPI_Win win, MPI_Request* request, rma::Direction direction,
           const char* what) {
  rma::Window* const window = call.window(win);
  const p2p::Buffer buffer = call.buffer(origin, count, datatype);
  const rma::Place target = place(call, window, rank, displacement, there, type_there);
  if (rank == MPI_PROC_NULL) return give_done_request(request);
  return finish(call, window->put_or_get(direction, buffer, target, request), what);
}

/// Checks the operation of an accumulate: predefined, and defined on the elements of the target's datatype.
op::OpKind accumulation(Call& call, MPI_Op handle, const rma::Place& target) {
  const op::Op* const op = call.any_op(handle);
  if (op->kind() == op::OpKind::user) {
    call.fail(MPI_ERR_OP, "argument op is not a predefined operation");
  }
  if (target.count != 0 && target.type->size() != 0 && !accumulates(op->kind(), *target.type)) {
    call.fail(MPI_ERR_OP, std::string{op->name()} + " is not defined for the elements of argument target_datatype");
  }
  return op->kind();
}

/// Checks that the datatypes of origin and target consist of the same predefined type.
void same_elements(Call& call, const p2p::Buffer& buffer, const datatype::Datatype* type) {
  if (buffer.bytes() == 0 || type->size() == 0) return;
  if (buffer.type().signature().uniform != type->signature().uniform) {
    call.fail(MPI_ERR_TYPE, "the origin's and the target's datatypes are not made of the same predefined one");
  }
}

int accumulate(Call& call, const void* origin, MPI_Count count, MPI_Datatype datatype, int rank, MPI_Aint displacement,
               MPI_Count there, MPI_Datatype type_there, MPI_Op op, MPI_Win win, MPI_Request* request = nullptr) {
  rma::Window* const window = call.window(win);
  const p2p::Buffer buffer = call.buffer(origin, count, datatype);
  const rma::Place target = place(call, window, rank, displacement, there, type_there);
  const op::OpKind kind = accumulation(call, op, target);
  same_elements(call, buffer, target.type);
  if (rank == MPI_PROC_NULL) return give_done_request(request);
  return finish(call, window->update(kind, buffer, nullptr, target, request), "one of the two buffers");
}

int get_accumulate(Call& call, const void* origin, MPI_Count count, MPI_Datatype datatype, void* result,
                   MPI_Count result_count, MPI_Datatype result_type, int rank, MPI_Aint displacement, MPI_Count there,
                   MPI_Datatype type_there, MPI_Op op, MPI_Win win, MPI_Request* request = nullptr) {
  rma::Window* const window = call.window(win);
  const rma::Place target = place(call, window, rank, displacement, there, type_there);
  const op::OpKind kind = accumulation(call, op, target);
  p2p::Buffer buffer;  // for MPI_NO_OP the origin arguments are not significant
  if (kind != op::OpKind::no_op) buffer = call.buffer(origin, count, datatype);
  const p2p::Buffer fetched = call.buffer(result, result_count, result_type);
  same_elements(call, buffer, target.type);
  if (rank == MPI_PROC_NULL) return give_done_request(request);
  return finish(call, window->update(kind, buffer, &fetched, target, request), "one of the buffers");
}

/// Whether MPI_Compare_and_swap allows the type: integers, logicals and bytes.
bool can_swap(const datatype::Datatype& type) {
  if (!type.element()) return false;
  switch (datatype::info(*type.element()).element_class) {
    case datatype::ElementClass::byte:
    case datatype::ElementClass::integer:
    case datatype::ElementClass::logical: return true;
    default: return false;
  }
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Put, access, nullptr, rma::Direction::put, "the target's buffer")
OPAL_MPI_FORWARD_BOTH(Rput, access, rma::Direction::put, "the target's buffer")
OPAL_MPI_FORWARD_BOTH(Get, access, nullptr, rma::Direction::get, "the origin's buffer")
OPAL_MPI_FORWARD_BOTH(Rget, access, rma::Direction::get, "the origin's buffer")
OPAL_MPI_FORWARD_BOTH(Accumulate, accumulate)
OPAL_MPI_FORWARD_BOTH(Raccumulate, accumulate)
OPAL_MPI_FORWARD_BOTH(Get_accumulate, get_accumulate)
OPAL_MPI_FORWARD_BOTH(Rget_accumulate, get_accumulate)

OPAL_MPI_CALL(Fetch_and_op, (Call & call, const void* origin_addr, void* result_addr, MPI_Datatype datatype,
                             int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win)) {
  return get_accumulate(call, origin_addr, 1, datatype, result_addr, 1, datatype, target_rank, target_disp, 1, datatype,
                        op, win);
}

OPAL_MPI_CALL(Compare_and_swap, (Call & call, const void* origin_addr, const void* compare_addr, void* result_addr,
                                 MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win)) {
  rma::Window* const window = call.window(win);
  const rma::Place target = place(call, window, target_rank, target_disp, 1, datatype);
  call.pointer(origin_addr, "origin_addr");
  call.pointer(compare_addr, "compare_addr");
  call.pointer(result_addr, "result_addr");
  if (!can_swap(*target.type)) {
    call.fail(MPI_ERR_TYPE, "argument datatype is not an integer, logical or byte type");
  }
  if (target_rank == MPI_PROC_NULL) return MPI_SUCCESS;
  return finish(call, window->compare_and_swap(origin_addr, compare_addr, result_addr, target), "the target's buffer");
}

}  // namespace mpi_shim::api
