// SPDX-License-Identifier: Apache-2.0
// MPI_Wait, MPI_Test, MPI_Request_get_status and their any, all and some forms.
#include <algorithm>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/p2p/waits/waiting.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

constexpr Outcome kEmpty{};

/// The array as a span.  With Outcomes::keep no entry is written, so a constant array may be passed.
std::span<MPI_Request> span_of(const MPI_Request* requests, int count) {
  return {const_cast<MPI_Request*>(requests), static_cast<std::size_t>(count)};
}

[[gnu::cold]] void fail_request(Call& call, int index) {
  call.fail(MPI_ERR_REQUEST,
            "entry " + std::to_string(index) + " of argument array_of_requests is not a valid request");
}

void check_requests(Call& call, int count, const MPI_Request* requests) {
  if (count < 0) call.fail_count(count);
  if (count > 0) call.pointer(requests, "array_of_requests");
  for (int i = 0; i < count; ++i) {
    if (requests[i] != MPI_REQUEST_NULL && handle::find<Request>(requests[i]) == nullptr) [[unlikely]]
      fail_request(call, i);
  }
}

/// Checks the arguments of MPI_Waitsome and similar functions.
void check_some(Call& call, int count, const MPI_Request* requests, const int* outcount, const int* indices) {
  check_requests(call, count, requests);
  call.pointer(outcount, "outcount");
  if (count > 0) call.pointer(indices, "array_of_indices");
}

bool all_done(std::span<const MPI_Request> requests) {
  return std::all_of(requests.begin(), requests.end(), [](MPI_Request request) {
    const Request* const active = active_request(request);
    return active == nullptr || active->done();
  });
}

/// One round of progress on the VCIs of these requests.
void progress_or_yield(Call& call, std::span<const MPI_Request> requests) {
  auto& vcis = call.process().job().vcis();
  vcis.progress_or_yield(vcis_of(vcis, requests));
}

MPI_Status* entry(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}

void store_with_error(const Outcome& outcome, MPI_Status* status) {
  store(outcome, status);
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = outcome.error;
}

/// Stores the statuses of all requests, frees or deactivates them unless Outcomes::keep.  MPI_ERR_IN_STATUS if one
/// failed.  Requires: all requests are complete, inactive or null.
int hand_out_all(Call& call, std::span<MPI_Request> requests, MPI_Status* statuses, Outcomes outcomes) {
  bool failed = false;
  MPI_Comm comm = MPI_COMM_NULL;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request* const request = still_active(requests[i]);
    if (request != nullptr && !failed) comm = request->comm();
    const Outcome outcome = request != nullptr ? outcome_of(requests[i], *request, outcomes) : kEmpty;
    failed = failed || outcome.error != MPI_SUCCESS;
    store_with_error(outcome, entry(statuses, static_cast<int>(i)));
  }
  return failed && outcomes != Outcomes::keep ? call.raise_on(comm, MPI_ERR_IN_STATUS) : MPI_SUCCESS;
}

int report(Call& call, const Found& found, MPI_Status* status, Outcomes outcomes) {
  store(found.outcome, status);
  if (!found.any_done && status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;  // empty status
  return found.outcome.error == MPI_SUCCESS || outcomes == Outcomes::keep
             ? MPI_SUCCESS
             : call.raise_on(found.comm, found.outcome.error);
}

/// Stores indices and statuses of the requests that are complete.  *outcount: their number, MPI_UNDEFINED if no request
/// is active.  Outcomes::keep leaves the requests as they are.
int hand_out_some(Call& call, std::span<MPI_Request> requests, int* outcount, int* indices, MPI_Status* statuses,
                  Outcomes outcomes) {
  *outcount = 0;
  bool active = false;
  bool failed = false;
  MPI_Comm comm = MPI_COMM_NULL;
  for (MPI_Request& handle : requests) {
    Request* request = active_request(handle);
    if (request == nullptr) continue;
    active = true;
    if (!request->done()) continue;
    if (!failed) comm = request->comm();
    const Outcome outcome = outcome_of(handle, *request, outcomes);
    failed = failed || outcome.error != MPI_SUCCESS;
    store_with_error(outcome, entry(statuses, *outcount));
    indices[(*outcount)++] = static_cast<int>(&handle - requests.data());
  }
  if (!active) *outcount = MPI_UNDEFINED;
  return failed && outcomes != Outcomes::keep ? call.raise_on(comm, MPI_ERR_IN_STATUS) : MPI_SUCCESS;
}

int test_any(Call& call, int count, const MPI_Request* handles, int* indx, int* flag, MPI_Status* status,
             Outcomes outcomes) {
  check_requests(call, count, handles);
  call.pointer(indx, "indx");
  call.pointer(flag, "flag");
  const Found found = find_done(call.process().job().vcis(), span_of(handles, count), /*block=*/false, outcomes);
  *flag = found.any_done || !found.any_active;
  *indx = found.any_done ? static_cast<int>(found.index) : MPI_UNDEFINED;
  return *flag != 0 ? report(call, found, status, outcomes) : MPI_SUCCESS;
}

/// MPI_Test and MPI_Request_get_status.
int test(Call& call, const MPI_Request* request, int* flag, MPI_Status* status, Outcomes outcomes) {
  int index = 0;
  return test_any(call, 1, request, &index, flag, status, outcomes);
}

int test_all(Call& call, int count, const MPI_Request* handles, int* flag, MPI_Status* statuses, Outcomes outcomes) {
  check_requests(call, count, handles);
  call.pointer(flag, "flag");
  const std::span<MPI_Request> requests = span_of(handles, count);
  *flag = all_done(requests);
  if (*flag == 0) {
    progress_or_yield(call, requests);
    *flag = all_done(requests);
  }
  return *flag != 0 ? hand_out_all(call, requests, statuses, outcomes) : MPI_SUCCESS;
}

int test_some(Call& call, int count, const MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses,
              Outcomes outcomes) {
  check_some(call, count, handles, outcount, indices);
  const std::span<MPI_Request> requests = span_of(handles, count);
  if (!any_done(requests)) progress_or_yield(call, requests);
  return hand_out_some(call, requests, outcount, indices, statuses, outcomes);
}

}  // namespace

OPAL_MPI_CALL(Wait, (Call & call, MPI_Request* request, MPI_Status* status)) {
  check_requests(call, 1, request);
  if (const Request* active = active_request(*request)) call.process().job().vcis().wait(*active);
  const Found found = find_done(call.process().job().vcis(), span_of(request, 1), /*block=*/true);
  return report(call, found, status, Outcomes::hand_out);
}

OPAL_MPI_CALL(Waitany, (Call & call, int count, MPI_Request array_of_requests[], int* indx, MPI_Status* status)) {
  check_requests(call, count, array_of_requests);
  call.pointer(indx, "indx");
  const Found found = find_done(call.process().job().vcis(), span_of(array_of_requests, count), /*block=*/true);
  *indx = found.any_done ? static_cast<int>(found.index) : MPI_UNDEFINED;
  return report(call, found, status, Outcomes::hand_out);
}

OPAL_MPI_CALL(Waitall, (Call & call, int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[])) {
  check_requests(call, count, array_of_requests);
  for (int i = 0; i < count; ++i) {
    const Request* const request = still_active(array_of_requests[i]);
    if (request != nullptr && !request->done())
      call.process().job().vcis().wait(*request, static_cast<std::size_t>(count - i));
  }
  return hand_out_all(call, span_of(array_of_requests, count), array_of_statuses, Outcomes::hand_out);
}

OPAL_MPI_CALL(Waitsome, (Call & call, int incount, MPI_Request array_of_requests[], int* outcount,
                         int array_of_indices[], MPI_Status array_of_statuses[])) {
  check_some(call, incount, array_of_requests, outcount, array_of_indices);
  const std::span<MPI_Request> requests = span_of(array_of_requests, incount);
  for (;;) {
    const int error = hand_out_some(call, requests, outcount, array_of_indices, array_of_statuses, Outcomes::hand_out);
    if (*outcount != 0) return error;
    auto& vcis = call.process().job().vcis();
    vcis.wait_until(vcis_of(vcis, requests), [&] { return any_done(requests); });
  }
}

OPAL_MPI_FORWARD(Test, test, Outcomes::hand_out)
OPAL_MPI_FORWARD(Testany, test_any, Outcomes::hand_out)
OPAL_MPI_FORWARD(Testall, test_all, Outcomes::hand_out)
OPAL_MPI_FORWARD(Testsome, test_some, Outcomes::hand_out)

// These functions do not free or deactivate the requests.
OPAL_MPI_CALL(Request_get_status, (Call & call, MPI_Request request, int* flag, MPI_Status* status)) {
  return test(call, &request, flag, status, Outcomes::keep);
}
OPAL_MPI_FORWARD(Request_get_status_any, test_any, Outcomes::keep)
OPAL_MPI_FORWARD(Request_get_status_all, test_all, Outcomes::keep)
OPAL_MPI_FORWARD(Request_get_status_some, test_some, Outcomes::keep)

}  // namespace mpi_shim::api
