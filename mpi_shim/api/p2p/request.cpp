// SPDX-License-Identifier: Apache-2.0
// MPI_Start, MPI_Request_free, MPI_Cancel.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/request/generalized.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

Request* find(Call& call, const MPI_Request* handle) {
  auto* const request = handle::find<Request>(call.at(handle, "request"));  // also null for MPI_REQUEST_NULL
  if (request == nullptr) call.fail(MPI_ERR_REQUEST, "argument request is not a valid request");
  return request;
}

void start(Call& call, MPI_Request* handle) {
  Request* request = find(call, handle);
  if (call.failed()) return;
  if (!request->persistent() || request->active()) {
    call.fail(MPI_ERR_REQUEST, "argument request is not an inactive persistent request");
    return;
  }
  request->start();
}

}  // namespace

OPAL_MPI_FUNCTION(int, Start, (MPI_Request * request)) {
  Call call{"MPI_Start"};
  if (!call.failed()) start(call, request);
  return call.error();
}

OPAL_MPI_FUNCTION(int, Startall, (int count, MPI_Request array_of_requests[])) {
  Call call{"MPI_Startall"};
  if (count < 0) call.fail_count(count);
  for (int i = 0; i < count && !call.failed(); ++i) start(call, array_of_requests + i);
  return call.error();
}

OPAL_MPI_FUNCTION(int, Request_free, (MPI_Request * request)) {
  Call call{"MPI_Request_free"};
  Request* object = find(call, request);
  if (call.failed()) return call.error();
  *request = MPI_REQUEST_NULL;
  {
    const opal::am::Lock::Guard guard{object->engine() != nullptr ? object->engine()->lock()
                                                                  : call.process().job().lock()};
    if (object->abandon()) return MPI_SUCCESS;
  }
  return call.finish(object->dismiss());
}

OPAL_MPI_FUNCTION(int, Cancel, (MPI_Request * request)) {
  Call call{"MPI_Cancel"};
  Request* object = find(call, request);
  if (call.failed()) return call.error();
  if (!object->active()) return MPI_SUCCESS;
  if (auto* const generalized = Generalized::from(*object)) {
    return call.finish(generalized->cancel_by_callback());
  }
  object->cancel();  // no error if it is too late: the operation completes as usual
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Test_cancelled, (const MPI_Status* status, int* flag)) {
  *flag = is_cancelled(*status);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Status_set_cancelled, (MPI_Status * status, int flag)) {
  set_cancelled(*status, flag != 0);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
