// SPDX-License-Identifier: Apache-2.0
// Error handlers of communicators and windows.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {
namespace {

using Kind = comm::Errhandler::Kind;

template <class Function>
int create(Call& call, Function* own, MPI_Errhandler* errhandler) {
  if (own == nullptr) call.fail(MPI_ERR_ARG, "the function of the error handler is a null pointer");
  auto made = handle::create<comm::Errhandler>(own);
  if (!made) call.fail_class(MPI_ERR_NO_MEM);
  return call.answer(errhandler, (*made)->use());
}

template <class Handle>
int set(Call& call, Handle object, MPI_Errhandler errhandler) {
  auto* const found = call.object(object);
  const bool is_comm = std::is_same_v<Handle, MPI_Comm>;
  found->errhandler.set(call.errhandler(errhandler, is_comm ? Kind::comm_function : Kind::win_function));
  return MPI_SUCCESS;
}

template <class Handle>
int get(Call& call, Handle object, MPI_Errhandler* errhandler) {
  return call.answer(errhandler, call.object(object)->errhandler.get()->use());
}

template <class Handle>
int call_handler(Call& call, Handle object, int errorcode) {
  call.object(object);
  call.raise_class(errorcode);
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD_ANY_TIME(Comm_create_errhandler, create)
OPAL_MPI_FORWARD_ANY_TIME(Win_create_errhandler, create)
OPAL_MPI_FORWARD(Comm_set_errhandler, set)
OPAL_MPI_FORWARD(Win_set_errhandler, set)
OPAL_MPI_FORWARD(Comm_get_errhandler, get)
OPAL_MPI_FORWARD(Win_get_errhandler, get)
OPAL_MPI_FORWARD(Comm_call_errhandler, call_handler)
OPAL_MPI_FORWARD(Win_call_errhandler, call_handler)

OPAL_MPI_CALL_ANY_TIME(Errhandler_free, (Call & call, MPI_Errhandler* errhandler)) {
  comm::Errhandler* const handler = find_errhandler(*errhandler);
  if (handler == nullptr) call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler");
  handler->free();
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
