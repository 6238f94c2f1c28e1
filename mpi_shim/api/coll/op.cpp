// SPDX-License-Identifier: Apache-2.0
// MPI_Op_create, _free and queries; MPI_Reduce_local.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/coll/on_host.hpp"

namespace mpi_shim::api {
namespace {

template <class Function>
int create(Call& call, Function* function, int commute, MPI_Op* op) {
  if (function == nullptr) call.fail(MPI_ERR_ARG, "argument user_fn is a null pointer");
  auto made = handle::create<op::Op>(function, commute != 0);
  if (!made) call.fail_class(MPI_ERR_NO_MEM);
  *op = handle::to_handle<MPI_Op>(*made->detach());  // the application's reference
  return MPI_SUCCESS;
}

int reduce_local(Call& call, const void* inbuf, void* inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op handle) {
  const p2p::Buffer in = call.buffer(inbuf, count, datatype);
  const p2p::Buffer inout = call.buffer(inoutbuf, count, datatype);
  const op::Op* const op = call.op(handle, datatype);
  if (inbuf == MPI_IN_PLACE || inoutbuf == MPI_IN_PLACE || (inbuf == inoutbuf && in.bytes() != 0)) {
    call.fail(MPI_ERR_BUFFER, "arguments inbuf and inoutbuf are MPI_IN_PLACE or the same memory");
  }
  coll::OnHost in_here{in, coll::OnHost::Use::read};
  coll::OnHost inout_here{inout, coll::OnHost::Use::update};
  op->apply(in_here.buffer().base(), inout_here.buffer().base(), count, inout.type());
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Op_create, create)

OPAL_MPI_CALL(Op_free, (Call & call, MPI_Op* op)) {
  op::Op* const object = call.any_op(*op);
  if (object->is_predefined()) call.fail(MPI_ERR_OP, "a predefined operation cannot be freed");
  object->retire();
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Op_commutative, (Call & call, MPI_Op op, int* commute)) {
  return call.answer(commute, call.any_op(op)->is_commutative());
}

OPAL_MPI_FORWARD_BOTH(Reduce_local, reduce_local)

}  // namespace mpi_shim::api
