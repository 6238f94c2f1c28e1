// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/p2p/request_array.hpp — arrays of requests as arguments: their checks, and questions about all of them.
#pragma once
#include <algorithm>

#include "mpi_shim/api/call.hpp"
#include "mpi_shim/p2p/waits/waiting.hpp"

namespace mpi_shim::api {

template <class Handle>
std::span<Handle> span_of(Handle* requests, int count) {
  return {requests, static_cast<std::size_t>(count)};
}

[[gnu::cold]] inline void fail_request(Call& call, int index) {
  call.fail(MPI_ERR_REQUEST,
            "entry " + std::to_string(index) + " of argument array_of_requests is not a valid request");
}

inline void check_requests(Call& call, int count, const MPI_Request* requests) {
  if (count < 0) return call.fail_count(count);
  if (count > 0) call.pointer(requests, "array_of_requests");
  for (int i = 0; i < count && !call.failed(); ++i) {
    if (requests[i] != MPI_REQUEST_NULL && handle::find<Request>(requests[i]) == nullptr) [[unlikely]]
      fail_request(call, i);
  }
}

inline bool is_done_or_inactive(MPI_Request request) {
  const Request* const active = active_request(request);
  return active == nullptr || active->done();
}

inline bool all_done(int count, const MPI_Request* requests) {
  return std::all_of(requests, requests + count, is_done_or_inactive);
}

/// A round of progress that may end some of these.
inline void poll(Call& call, int count, const MPI_Request* requests) {
  auto& vcis = call.process().job().vcis();
  vcis.poll(vcis_of(vcis, span_of(requests, count)));
}

/// A round of progress, unless some of these is done already.
inline void poll_for_any(Call& call, int count, const MPI_Request* requests) {
  if (!any_done(span_of(requests, count))) poll(call, count, requests);
}

}  // namespace mpi_shim::api
