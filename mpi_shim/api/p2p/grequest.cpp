// SPDX-License-Identifier: Apache-2.0
// Generalized requests.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/request/generalized.hpp"

namespace mpi_shim::api {

OPAL_MPI_CALL(Grequest_start, (Call & call, MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                               MPI_Grequest_cancel_function* cancel_fn, void* extra_state, MPI_Request* request)) {
  call.pointer(request, "request");
  auto made = handle::create<Generalized>(Generalized::Callbacks{query_fn, free_fn, cancel_fn, extra_state});
  if (!made) call.fail_class(MPI_ERR_NO_MEM);
  return hand_over(*made->detach(), Start::now, MPI_COMM_NULL, request);  // put_back() destroys it
}

OPAL_MPI_CALL(Grequest_complete, (Call & call, MPI_Request request)) {
  Request* const object = handle::find<Request>(request);
  Generalized* const generalized = object != nullptr ? Generalized::from(*object) : nullptr;
  if (generalized == nullptr || generalized->done()) {
    call.fail(MPI_ERR_REQUEST, "argument request is not a generalized request that is in flight");
  }
  bool abandoned = false;
  {
    const opal::am::Lock::Guard guard{call.process().job().lock()};  // another thread may free the request now
    abandoned = generalized->complete();
  }
  call.process().job().vcis().wake_sleepers();
  return abandoned ? call.finish(generalized->dismiss()) : MPI_SUCCESS;
}

}  // namespace mpi_shim::api
