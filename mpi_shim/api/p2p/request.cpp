// SPDX-License-Identifier: Apache-2.0
// MPI_Start, MPI_Request_free, MPI_Cancel, and generalized requests.
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/request/status.hpp"

namespace mpi_shim::api {
namespace {

/// A generalized request (MPI_Grequest_start): the program completes it, and the program's callbacks supply its status.
/// It owns itself: dismiss() destroys it.  Callbacks run without any lock held, in the thread that waits, tests,
/// cancels, completes or frees.
class Generalized final : public Request {
 public:
  struct Callbacks {
    MPI_Grequest_query_function* query;
    MPI_Grequest_free_function* free;
    MPI_Grequest_cancel_function* cancel;
    void* extra_state;
  };
  explicit Generalized(const Callbacks& callbacks) noexcept : Request(kActions, nullptr), callbacks_(callbacks) {}

  /// Null: `request` is no generalized request.
  static Generalized* from(Request& request) noexcept {
    return request.has_actions(kActions) ? static_cast<Generalized*>(&request) : nullptr;
  }
  /// MPI_Grequest_complete.  Requires: called once, while active.  True: the program has already freed the request, and
  /// the caller calls dismiss().
  [[nodiscard]] bool complete() noexcept { return finish_and_keep(); }
  /// Calls the cancel callback and returns its error code.
  int cancel_by_callback() noexcept {
    return callbacks_.cancel != nullptr ? callbacks_.cancel(callbacks_.extra_state, done()) : MPI_SUCCESS;
  }

 private:
  static const Actions kActions;
  void ask() noexcept {
    MPI_Status status{};
    status.MPI_SOURCE = MPI_ANY_SOURCE;
    status.MPI_TAG = MPI_ANY_TAG;
    const int error = callbacks_.query != nullptr ? callbacks_.query(callbacks_.extra_state, &status) : MPI_SUCCESS;
    outcome_ = {status.MPI_SOURCE, status.MPI_TAG, error, bytes_of(status), is_cancelled(status)};
  }
  int end() noexcept {
    const int error = callbacks_.free != nullptr ? callbacks_.free(callbacks_.extra_state) : MPI_SUCCESS;
    retire();
    return error;
  }

  const Callbacks callbacks_;
};

const Request::Actions Generalized::kActions{
    act<&Generalized::begin>,
    [](Request& self) noexcept { static_cast<Generalized&>(self).end(); },
    nullptr,  // MPI_Cancel calls cancel_by_callback()
    act<&Generalized::ask>,
    act<&Generalized::end>,
};

Request* find(Call& call, const MPI_Request* handle) {  // an error also for MPI_REQUEST_NULL
  return call.find<Request>(*handle, MPI_ERR_REQUEST, "request", "request");
}

void start(Call& call, MPI_Request* handle) {
  Request* request = find(call, handle);
  if (!request->persistent() || request->active()) {
    call.fail(MPI_ERR_REQUEST, "argument request is not an inactive persistent request");
  }
  request->start();
}

}  // namespace

OPAL_MPI_CALL(Start, (Call & call, MPI_Request* request)) {
  start(call, request);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Startall, (Call & call, int count, MPI_Request array_of_requests[])) {
  if (count < 0) call.fail_count(count);
  if (count > 0) call.pointer(array_of_requests, "array_of_requests");
  for (int i = 0; i < count; ++i) start(call, array_of_requests + i);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Request_free, (Call & call, MPI_Request* request)) {
  Request* object = find(call, request);
  *request = MPI_REQUEST_NULL;
  {
    const opal::am::Lock::Guard guard{object->engine() != nullptr ? object->engine()->lock()
                                                                  : call.process().job().lock()};
    if (object->abandon()) return MPI_SUCCESS;
  }
  return call.finish(object->dismiss());
}

OPAL_MPI_CALL(Cancel, (Call & call, MPI_Request* request)) {
  Request* object = find(call, request);
  if (!object->active()) return MPI_SUCCESS;
  if (auto* const generalized = Generalized::from(*object)) {
    return call.finish(generalized->cancel_by_callback());
  }
  // No error if it is too late: the operation completes as usual.  Another thread may sleep until it is over.
  if (object->cancel()) call.process().job().vcis().wake_sleepers();
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Grequest_start, (Call & call, MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                               MPI_Grequest_cancel_function* cancel_fn, void* extra_state, MPI_Request* request)) {
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

OPAL_MPI_FUNCTION(int, Test_cancelled, (const MPI_Status* status, int* flag)) {
  *flag = is_cancelled(*status);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Status_set_cancelled, (MPI_Status * status, int flag)) {
  set_cancelled(*status, flag != 0);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
