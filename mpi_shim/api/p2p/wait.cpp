// SPDX-License-Identifier: Apache-2.0
// MPI_Wait, MPI_Test, MPI_Request_get_status and their any, all and some forms.
// Returning the outcome of a request to the program ends the request: its handle becomes MPI_REQUEST_NULL, or, if it is
// persistent, the request becomes inactive.  Null and inactive requests count as done with an empty status.
#include <algorithm>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

constexpr Outcome kEmpty{};

/// Whether a request ends when its outcome is returned (hand_out), or stays (keep: MPI_Request_get_status*).
enum class Outcomes { hand_out, keep };

/// Whether a function returns one request and its status, or several.  Only the latter set MPI_ERROR in a status.
enum class Number { one, several };

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
void check_some(Call& call, int count, const MPI_Request* requests, const int* indices) {
  check_requests(call, count, requests);
  if (count > 0) call.pointer(indices, "array_of_indices");
}

/// The request of a handle if it is active, else null.  Requires: the handle was valid or null when the MPI call began.
/// A request that is twice in an array may have ended during the call; its memory is still readable
/// (handle/arena.hpp), and the magic word tells.
Request* active_request(MPI_Request handle) noexcept {
  if (handle == MPI_REQUEST_NULL) return nullptr;
  auto* const request = reinterpret_cast<Request*>(handle);
  const bool lives = request->magic() == handle::Object::live_magic(Request::kKind);
  return lives && request->active() ? request : nullptr;
}

bool any_done(std::span<const MPI_Request> requests) noexcept {
  return std::any_of(requests.begin(), requests.end(), [](MPI_Request request) {
    const Request* const active = active_request(request);
    return active != nullptr && active->done();
  });
}

bool all_done(std::span<const MPI_Request> requests) noexcept {
  return std::all_of(requests.begin(), requests.end(), [](MPI_Request request) {
    const Request* const active = active_request(request);
    return active == nullptr || active->done();
  });
}

/// The VCIs whose progress ends the active requests; VCI 0 if there are none, since the caller may still poll.
p2p::Vcis::Set vcis_of(const p2p::Vcis& vcis, std::span<const MPI_Request> requests) noexcept {
  if (vcis.count() == 1) return 1;
  p2p::Vcis::Set set = 0;
  for (const MPI_Request handle : requests) {
    const Request* const request = active_request(handle);
    if (request != nullptr && !request->done()) set |= vcis.of(*request);
  }
  return set != 0 ? set : 1;
}

/// One round of progress on the VCIs of these requests.
void progress_or_yield(Call& call, std::span<const MPI_Request> requests) {
  auto& vcis = call.process().job().vcis();
  vcis.progress_or_yield(vcis_of(vcis, requests));
}

/// The outcome of a request that is done.  Outcomes::hand_out ends the request, and sets its handle to null unless it
/// is persistent; the outcome may then have the error code of the program's free callback (generalized requests).
Outcome outcome_of(MPI_Request& handle, Request& request, Outcomes outcomes) noexcept {
  Outcome outcome = request.query();
  if (outcomes == Outcomes::keep) return outcome;
  if (!request.persistent()) handle = MPI_REQUEST_NULL;
  if (const int error = request.consume(); error != MPI_SUCCESS) [[unlikely]]
    outcome.error = error;
  return outcome;
}

void store(const Outcome& outcome, MPI_Status* statuses, int index, Number number) {
  if (statuses == MPI_STATUSES_IGNORE) return;
  mpi_shim::store(outcome, statuses + index);
  if (number == Number::several) statuses[index].MPI_ERROR = outcome.error;
}

/// Stores the statuses of all requests, frees or deactivates them unless Outcomes::keep.  MPI_ERR_IN_STATUS if one
/// failed.  Requires: all requests are complete, inactive or null.
int hand_out_all(Call& call, std::span<MPI_Request> requests, MPI_Status* statuses, Outcomes outcomes) {
  bool failed = false;
  MPI_Comm comm = MPI_COMM_NULL;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request* const request = active_request(requests[i]);
    if (request != nullptr && !failed) comm = request->comm();
    const Outcome outcome = request != nullptr ? outcome_of(requests[i], *request, outcomes) : kEmpty;
    failed = failed || outcome.error != MPI_SUCCESS;
    store(outcome, statuses, static_cast<int>(i), Number::several);
  }
  return failed && outcomes != Outcomes::keep ? call.raise_on(comm, MPI_ERR_IN_STATUS) : MPI_SUCCESS;
}

/// The requests that were done, and whose indices and statuses are stored.
struct Found {
  bool any_active = false;
  int done = 0;
  int error = MPI_SUCCESS;        ///< of the first that has failed
  MPI_Comm comm = MPI_COMM_NULL;  ///< the communicator whose error handler gets the error
};

Found find_done(std::span<MPI_Request> requests, int* indices, MPI_Status* statuses, Outcomes outcomes, Number number) {
  Found found;
  for (MPI_Request& handle : requests) {
    Request* const request = active_request(handle);
    if (request == nullptr) continue;
    found.any_active = true;
    if (!request->done()) continue;
    const MPI_Comm comm = request->comm();
    const Outcome outcome = outcome_of(handle, *request, outcomes);
    if (outcome.error != MPI_SUCCESS && found.error == MPI_SUCCESS) {
      found.error = outcome.error;
      found.comm = comm;
    }
    store(outcome, statuses, found.done, number);
    indices[found.done++] = static_cast<int>(&handle - requests.data());
    if (number == Number::one) break;
  }
  return found;
}

/// As find_done(), and waits until a request is done, unless none is active.
Found wait_done(Call& call, std::span<MPI_Request> requests, int* indices, MPI_Status* statuses, Number number) {
  for (;;) {
    const Found found = find_done(requests, indices, statuses, Outcomes::hand_out, number);
    if (found.done != 0 || !found.any_active) return found;
    auto& vcis = call.process().job().vcis();
    vcis.wait_until(vcis_of(vcis, requests), [&] { return any_done(requests); });
  }
}

/// As find_done(), with a round of progress if no request is done.
Found test_done(Call& call, std::span<MPI_Request> requests, int* indices, MPI_Status* statuses, Outcomes outcomes,
                Number number) {
  const Found found = find_done(requests, indices, statuses, outcomes, number);
  if (found.done != 0 || !found.any_active) return found;
  progress_or_yield(call, requests);
  return find_done(requests, indices, statuses, outcomes, number);
}

/// The end of a function that returns one request.
int report_one(Call& call, const Found& found, MPI_Status* status, Outcomes outcomes = Outcomes::hand_out) {
  if (found.done == 0) store(kEmpty, status, 0, Number::several);
  return found.error == MPI_SUCCESS || outcomes == Outcomes::keep ? MPI_SUCCESS
                                                                  : call.raise_on(found.comm, found.error);
}

/// The end of a function that returns several.  *outcount: their number, MPI_UNDEFINED if no request is active.
int report_some(Call& call, const Found& found, int* outcount, Outcomes outcomes = Outcomes::hand_out) {
  *outcount = found.any_active ? found.done : MPI_UNDEFINED;
  return found.error == MPI_SUCCESS || outcomes == Outcomes::keep ? MPI_SUCCESS
                                                                  : call.raise_on(found.comm, MPI_ERR_IN_STATUS);
}

int test_any(Call& call, int count, const MPI_Request* handles, int* indx, int* flag, MPI_Status* status,
             Outcomes outcomes) {
  check_requests(call, count, handles);
  *indx = MPI_UNDEFINED;
  const Found found = test_done(call, span_of(handles, count), indx, status, outcomes, Number::one);
  *flag = found.done != 0 || !found.any_active;
  return *flag != 0 ? report_one(call, found, status, outcomes) : MPI_SUCCESS;
}

/// MPI_Test and MPI_Request_get_status.
int test(Call& call, const MPI_Request* request, int* flag, MPI_Status* status, Outcomes outcomes) {
  int index = 0;
  return test_any(call, 1, request, &index, flag, status, outcomes);
}

int test_all(Call& call, int count, const MPI_Request* handles, int* flag, MPI_Status* statuses, Outcomes outcomes) {
  check_requests(call, count, handles);
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
  check_some(call, count, handles, indices);
  const Found found = test_done(call, span_of(handles, count), indices, statuses, outcomes, Number::several);
  return report_some(call, found, outcount, outcomes);
}

}  // namespace

OPAL_MPI_CALL(Wait, (Call & call, MPI_Request* request, MPI_Status* status)) {
  check_requests(call, 1, request);
  if (const Request* active = active_request(*request)) call.process().job().vcis().wait(*active);
  int index = 0;
  return report_one(call, wait_done(call, span_of(request, 1), &index, status, Number::one), status);
}

OPAL_MPI_CALL(Waitany, (Call & call, int count, MPI_Request array_of_requests[], int* indx, MPI_Status* status)) {
  check_requests(call, count, array_of_requests);
  *indx = MPI_UNDEFINED;
  return report_one(call, wait_done(call, span_of(array_of_requests, count), indx, status, Number::one), status);
}

OPAL_MPI_CALL(Waitall, (Call & call, int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[])) {
  check_requests(call, count, array_of_requests);
  for (int i = 0; i < count; ++i) {
    const Request* const request = active_request(array_of_requests[i]);
    if (request != nullptr && !request->done())
      call.process().job().vcis().wait(*request, static_cast<std::size_t>(count - i));
  }
  return hand_out_all(call, span_of(array_of_requests, count), array_of_statuses, Outcomes::hand_out);
}

OPAL_MPI_CALL(Waitsome, (Call & call, int incount, MPI_Request array_of_requests[], int* outcount,
                         int array_of_indices[], MPI_Status array_of_statuses[])) {
  check_some(call, incount, array_of_requests, array_of_indices);
  const Found found =
      wait_done(call, span_of(array_of_requests, incount), array_of_indices, array_of_statuses, Number::several);
  return report_some(call, found, outcount);
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
