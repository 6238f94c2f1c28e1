// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/waits/waiting.hpp — the MPI_Wait* and MPI_Test* families over arrays of handles.  A handle whose outcome
// was handed out becomes MPI_REQUEST_NULL, unless it is persistent.  Null and inactive requests count as done with an
// empty status.  Handles have been checked.
// Threads: a request is waited for by one thread at a time; that is the standard's rule.
#pragma once
#include <cstddef>
#include <span>

#include "mpi_shim/p2p/waits/vcis.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

/// The request behind a handle if something is in flight, else null.
inline Request* active_request(MPI_Request handle) noexcept {
  Request* request = handle == MPI_REQUEST_NULL ? nullptr : handle::find<Request>(handle);
  return request != nullptr && request->active() ? request : nullptr;
}

/// As active_request() for a handle that was valid, or null, when this call began; a request that stands in an array
/// twice may have gone since.
inline Request* still_active(MPI_Request handle) noexcept {
  if (handle == MPI_REQUEST_NULL) return nullptr;
  auto* const request = reinterpret_cast<Request*>(handle);
  const bool lives = request->magic() == handle::Object::live_magic(Request::kKind);
  return lives && request->active() ? request : nullptr;
}

/// The outcome of a request has been handed out.  An error code of the program's own callback.
inline int let_go(MPI_Request& handle, Request& request) noexcept {
  if (!request.persistent()) handle = MPI_REQUEST_NULL;
  return request.consume();
}

/// Hands out the outcome of a request that is done.
Outcome hand_out(MPI_Request& handle, Request& request) noexcept;

/// The result of testing several requests.
struct Found {
  bool any_active = false;
  bool any_done = false;
  std::size_t index = 0;
  Outcome outcome;
  MPI_Comm comm = MPI_COMM_NULL;  ///< its error handler gets an error
};

[[nodiscard]] bool any_done(std::span<const MPI_Request> handles) noexcept;

/// Whether the outcome of a request that is done is handed out, or only told (MPI_Request_get_status*).
enum class Outcomes { hand_out, keep };

/// The first request that is done.  `block`: waits for one unless none is active.
Found find_done(p2p::Vcis& vcis, std::span<MPI_Request> handles, bool block,
                Outcomes outcomes = Outcomes::hand_out) noexcept;

/// VCIs whose progress ends requests of these.
[[nodiscard]] p2p::Vcis::Set vcis_of(const p2p::Vcis& vcis, std::span<const MPI_Request> handles) noexcept;

}  // namespace mpi_shim
