// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/waits/waiting.hpp — common parts of the MPI_Wait* and MPI_Test* families over arrays of handles.
// Returning the outcome of a request to the program ends the request: its handle becomes MPI_REQUEST_NULL, or, if it is
// persistent, the request becomes inactive.  Null and inactive requests count as done with an empty status.
// Requires: the caller has checked the handles and holds no lock.  Threads: the standard allows one thread per request.
#pragma once
#include <cstddef>
#include <span>

#include "mpi_shim/p2p/waits/vcis.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

/// The request of a handle if it is active, else null.
inline Request* active_request(MPI_Request handle) noexcept {
  Request* request = handle == MPI_REQUEST_NULL ? nullptr : handle::find<Request>(handle);
  return request != nullptr && request->active() ? request : nullptr;
}

/// As active_request(), for a handle that was valid or null when the MPI call began.  A request that is twice in an
/// array may have ended during the call; its memory is still readable (handle/arena.hpp), and the magic word tells.
inline Request* still_active(MPI_Request handle) noexcept {
  if (handle == MPI_REQUEST_NULL) return nullptr;
  auto* const request = reinterpret_cast<Request*>(handle);
  const bool lives = request->magic() == handle::Object::live_magic(Request::kKind);
  return lives && request->active() ? request : nullptr;
}

/// Whether a request ends when its outcome is returned (hand_out), or stays (keep: MPI_Request_get_status*).
enum class Outcomes { hand_out, keep };

/// The outcome of a request that is done.  Outcomes::hand_out ends the request, and sets its handle to null unless it
/// is persistent; the outcome may then have the error code of the program's free callback (generalized requests).
inline Outcome outcome_of(MPI_Request& handle, Request& request, Outcomes outcomes) noexcept {
  Outcome outcome = request.query();
  if (outcomes == Outcomes::keep) return outcome;
  if (!request.persistent()) handle = MPI_REQUEST_NULL;
  if (const int error = request.consume(); error != MPI_SUCCESS) [[unlikely]]
    outcome.error = error;
  return outcome;
}

/// The result of testing several requests.
struct Found {
  bool any_active = false;
  bool any_done = false;
  std::size_t index = 0;  ///< of the request that is done; valid if any_done, like the following members
  Outcome outcome;
  MPI_Comm comm = MPI_COMM_NULL;  ///< the communicator whose error handler gets an error of the request
};

[[nodiscard]] bool any_done(std::span<const MPI_Request> handles) noexcept;

/// The first request that is done.  `block`: waits until one is done, unless none is active; otherwise it polls once.
Found find_done(p2p::Vcis& vcis, std::span<MPI_Request> handles, bool block,
                Outcomes outcomes = Outcomes::hand_out) noexcept;

/// The VCIs whose progress ends the active requests among `handles`; VCI 0 if there are none.
[[nodiscard]] p2p::Vcis::Set vcis_of(const p2p::Vcis& vcis, std::span<const MPI_Request> handles) noexcept;

}  // namespace mpi_shim
