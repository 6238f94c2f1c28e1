// SPDX-License-Identifier: Apache-2.0
// Error handlers of communicators and windows.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {
namespace {

using Kind = comm::Errhandler::Kind;

comm::Errhandler calling(MPI_Comm_errhandler_function* own) { return {Kind::comm_function, own}; }
comm::Errhandler calling(MPI_Win_errhandler_function* own) { return {Kind::win_function, nullptr, own}; }

template <class Function>
int create(Call& call, Function* own, MPI_Errhandler* errhandler) {
  if (own == nullptr) call.fail(MPI_ERR_ARG, "the function of the error handler is a null pointer");
  return call.answer(errhandler, new_handle(std::make_shared<const comm::Errhandler>(calling(own))));
}

template <class Handle>
int set(Call& call, Handle object, MPI_Errhandler errhandler) {
  auto* const found = call.object(object);
  const bool is_comm = std::is_same_v<Handle, MPI_Comm>;
  auto handler = call.errhandler(errhandler, is_comm ? Kind::comm_function : Kind::win_function);
  found->errhandler.set(std::move(handler));
  return MPI_SUCCESS;
}

template <class Handle>
int get(Call& call, Handle object, MPI_Errhandler* errhandler) {
  return call.answer(errhandler, new_handle(call.object(object)->errhandler.get()));
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
  if (find_errhandler(*errhandler) == nullptr) {
    call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler");
  }
  if (auto* object = handle::find<ErrhandlerObject>(*errhandler)) free_handle(*object);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
