// SPDX-License-Identifier: Apache-2.0
// Requests as objects: starting, freeing, cancelling, looking without waiting.
#include <algorithm>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/p2p/waits/waiting.hpp"
#include "mpi_shim/request/generalized.hpp"
#include "mpi_shim/request/status.hpp"

namespace {

using mpi_shim::Request;
using mpi_shim::api::Call;

Request* find(Call& call, const MPI_Request* handle) {
  call.pointer(handle, "request");
  if (call.failed()) return nullptr;
  Request* request = *handle == MPI_REQUEST_NULL ? nullptr : mpi_shim::handle::find<Request>(*handle);
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

void check(Call& call, int count, const MPI_Request* handles) {
  if (count < 0) return call.fail_count(count);
  if (count > 0) call.pointer(handles, "array_of_requests");
  for (int i = 0; i < count && !call.failed(); ++i) {
    if (handles[i] != MPI_REQUEST_NULL) find(call, handles + i);
  }
}

bool is_done_or_inactive(MPI_Request handle) {
  const Request* const active = mpi_shim::active_request(handle);
  return active == nullptr || active->done();
}

bool all_done(int count, const MPI_Request* handles) {
  return std::all_of(handles, handles + count, is_done_or_inactive);
}

void look(Call& call, int count, const MPI_Request* handles) {
  auto& vcis = call.process().job().vcis();
  vcis.poll(mpi_shim::vcis_of(vcis, {handles, static_cast<std::size_t>(count)}));
}

/// Looks for news, once, unless some request of these is done already.
void look_for_any(Call& call, int count, const MPI_Request* handles) {
  if (!mpi_shim::any_done({handles, static_cast<std::size_t>(count)})) look(call, count, handles);
}

/// What the status of a request that is done or inactive says; it stays as it is.
mpi_shim::Outcome outcome_of(MPI_Request handle) {
  Request* const active = mpi_shim::active_request(handle);
  return active != nullptr ? active->query() : mpi_shim::Outcome{};
}

/// As of a request that is null or inactive.
void store_empty(MPI_Status* status) {
  store(mpi_shim::Outcome{}, status);
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;
}

void store_with_error(MPI_Request handle, MPI_Status* statuses, int index) {
  if (statuses == MPI_STATUSES_IGNORE) return;
  const mpi_shim::Outcome outcome = outcome_of(handle);
  store(outcome, statuses + index);
  statuses[index].MPI_ERROR = outcome.error;
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
  if (call.failed()) return call.error();
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
  if (call.failed()) return call.error();
  Request* object = find(call, request);
  if (call.failed()) return call.error();
  if (!object->active()) return MPI_SUCCESS;
  if (auto* const generalized = mpi_shim::Generalized::from(*object)) {
    return call.finish(generalized->cancel_by_callback());
  }
  object->cancel();  // too late is not an error: the operation then completes as usual
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Test_cancelled, (const MPI_Status* status, int* flag)) {
  *flag = mpi_shim::is_cancelled(*status);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Status_set_cancelled, (MPI_Status * status, int flag)) {
  mpi_shim::set_cancelled(*status, flag != 0);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Request_get_status, (MPI_Request request, int* flag, MPI_Status* status)) {
  Call call{"MPI_Request_get_status"};
  if (call.failed()) return call.error();
  check(call, 1, &request);
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  look_for_any(call, 1, &request);
  *flag = is_done_or_inactive(request);
  if (mpi_shim::active_request(request) == nullptr) {
    store_empty(status);
  } else if (*flag != 0) {
    store(outcome_of(request), status);
  }
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Request_get_status_all,
                  (int count, const MPI_Request array_of_requests[], int* flag, MPI_Status array_of_statuses[])) {
  Call call{"MPI_Request_get_status_all"};
  if (call.failed()) return call.error();
  check(call, count, array_of_requests);
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  if (!all_done(count, array_of_requests)) look(call, count, array_of_requests);
  *flag = all_done(count, array_of_requests);
  for (int i = 0; *flag != 0 && i < count; ++i) store_with_error(array_of_requests[i], array_of_statuses, i);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Request_get_status_any,
                  (int count, const MPI_Request array_of_requests[], int* indx, int* flag, MPI_Status* status)) {
  Call call{"MPI_Request_get_status_any"};
  if (call.failed()) return call.error();
  check(call, count, array_of_requests);
  call.pointer(indx, "indx");
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  look_for_any(call, count, array_of_requests);
  *indx = MPI_UNDEFINED;
  bool any_active = false;
  for (int i = 0; i < count && *indx == MPI_UNDEFINED; ++i) {
    if (mpi_shim::active_request(array_of_requests[i]) == nullptr) continue;
    any_active = true;
    if (is_done_or_inactive(array_of_requests[i])) *indx = i;
  }
  *flag = *indx != MPI_UNDEFINED || !any_active;
  if (*indx != MPI_UNDEFINED) {
    store(outcome_of(array_of_requests[*indx]), status);
  } else if (*flag != 0) {
    store_empty(status);
  }
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Request_get_status_some,
                  (int incount, const MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
                   MPI_Status array_of_statuses[])) {
  Call call{"MPI_Request_get_status_some"};
  if (call.failed()) return call.error();
  check(call, incount, array_of_requests);
  call.pointer(outcount, "outcount");
  if (incount > 0) call.pointer(array_of_indices, "array_of_indices");
  if (call.failed()) return call.error();
  look_for_any(call, incount, array_of_requests);
  *outcount = 0;
  bool any_active = false;
  for (int i = 0; i < incount; ++i) {
    if (mpi_shim::active_request(array_of_requests[i]) == nullptr) continue;
    any_active = true;
    if (!is_done_or_inactive(array_of_requests[i])) continue;
    store_with_error(array_of_requests[i], array_of_statuses, *outcount);
    array_of_indices[(*outcount)++] = i;
  }
  if (!any_active) *outcount = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
