// SPDX-License-Identifier: Apache-2.0
// Error handlers of communicators and windows.
#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {
namespace {

using Kind = comm::Errhandler::Kind;

comm::Errhandler calling(MPI_Comm_errhandler_function* own) { return {Kind::comm_function, own}; }
comm::Errhandler calling(MPI_Win_errhandler_function* own) { return {Kind::win_function, nullptr, own}; }

template <class Function>
int create(const char* function, Function* own, MPI_Errhandler* errhandler) {
  Call call{function, kAnyTime};
  if (own == nullptr) call.fail(MPI_ERR_ARG, "the function of the error handler is a null pointer");
  return call.answer(errhandler, "errhandler",
                     [&] { return new_handle(std::make_shared<const comm::Errhandler>(calling(own))); });
}

template <class Handle>
int set(const char* function, Handle object, MPI_Errhandler errhandler) {
  Call call{function};
  auto* const found = call.object(object);
  const bool is_comm = std::is_same_v<Handle, MPI_Comm>;
  auto handler = call.errhandler(errhandler, is_comm ? Kind::comm_function : Kind::win_function);
  if (call.failed()) return call.error();
  found->errhandler.set(std::move(handler));
  return MPI_SUCCESS;
}

template <class Handle>
int get(const char* function, Handle object, MPI_Errhandler* errhandler) {
  Call call{function};
  const auto* const found = call.object(object);
  return call.answer(errhandler, "errhandler", [&] { return new_handle(found->errhandler.get()); });
}

template <class Handle>
int call_handler(const char* function, Handle object, int errorcode) {
  Call call{function};
  call.object(object);
  if (call.failed()) return call.error();
  call.fail_class(errorcode);
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD(Comm_create_errhandler, create)
OPAL_MPI_FORWARD(Win_create_errhandler, create)
OPAL_MPI_FORWARD(Comm_set_errhandler, set)
OPAL_MPI_FORWARD(Win_set_errhandler, set)
OPAL_MPI_FORWARD(Comm_get_errhandler, get)
OPAL_MPI_FORWARD(Win_get_errhandler, get)
OPAL_MPI_FORWARD(Comm_call_errhandler, call_handler)
OPAL_MPI_FORWARD(Win_call_errhandler, call_handler)

OPAL_MPI_FUNCTION(int, Errhandler_free, (MPI_Errhandler * errhandler)) {
  Call call{"MPI_Errhandler_free", kAnyTime};
  if (find_errhandler(call.at(errhandler, "errhandler")) == nullptr) {
    return call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler");
  }
  if (auto* object = handle::find<ErrhandlerObject>(*errhandler)) free_handle(*object);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
