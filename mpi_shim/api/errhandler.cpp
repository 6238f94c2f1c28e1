// SPDX-License-Identifier: Apache-2.0
// Error handlers of communicators.  They are made and freed also before MPI_Init and after MPI_Finalize.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::comm::Communicator;
using mpi_shim::comm::Errhandler;

}  // namespace

OPAL_MPI_FUNCTION(int, Comm_create_errhandler,
                  (MPI_Comm_errhandler_function * comm_errhandler_fn, MPI_Errhandler* errhandler)) {
  Call call{"MPI_Comm_create_errhandler", Call::When::any_time};
  call.pointer(errhandler, "errhandler");
  if (comm_errhandler_fn == nullptr) call.fail(MPI_ERR_ARG, "argument comm_errhandler_fn is a null pointer");
  if (call.failed()) return call.error();
  *errhandler = mpi_shim::new_handle(
      std::make_shared<const Errhandler>(Errhandler{Errhandler::Kind::comm_function, comm_errhandler_fn}));
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler)) {
  Call call{"MPI_Comm_set_errhandler"};
  if (call.failed()) return call.error();
  Communicator* const communicator = call.comm(comm);
  auto handler = mpi_shim::find_errhandler(errhandler);
  if (handler == nullptr || handler->kind == Errhandler::Kind::win_function) {
    call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler for communicators");
  }
  if (call.failed()) return call.error();
  communicator->errhandler.set(std::move(handler));
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler* errhandler)) {
  Call call{"MPI_Comm_get_errhandler"};
  if (call.failed()) return call.error();
  const Communicator* const communicator = call.comm(comm);
  call.pointer(errhandler, "errhandler");
  if (call.failed()) return call.error();
  *errhandler = mpi_shim::new_handle(communicator->errhandler.get());
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Comm_call_errhandler, (MPI_Comm comm, int errorcode)) {
  Call call{"MPI_Comm_call_errhandler"};
  if (call.failed()) return call.error();
  call.comm(comm);
  if (call.failed()) return call.error();
  call.fail_class(errorcode);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Errhandler_free, (MPI_Errhandler * errhandler)) {
  Call call{"MPI_Errhandler_free", Call::When::any_time};
  call.pointer(errhandler, "errhandler");
  if (call.failed()) return call.error();
  if (mpi_shim::find_errhandler(*errhandler) == nullptr) {
    return call.fail(MPI_ERR_ERRHANDLER, "argument errhandler is not a valid error handler");
  }
  if (auto* object = mpi_shim::handle::find<mpi_shim::ErrhandlerObject>(*errhandler)) free_handle(*object);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}
