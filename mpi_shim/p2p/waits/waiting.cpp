// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/waits/waiting.hpp"

namespace mpi_shim {

bool any_done(std::span<const MPI_Request> handles) noexcept {
  for (const MPI_Request handle : handles) {
    const Request* request = active_request(handle);
    if (request != nullptr && request->done()) return true;
  }
  return false;
}

p2p::Vcis::Set vcis_of(const p2p::Vcis& vcis, std::span<const MPI_Request> handles) noexcept {
  if (vcis.count() == 1) return 1;
  p2p::Vcis::Set set = 0;
  for (const MPI_Request handle : handles) {
    const Request* request = active_request(handle);
    if (request != nullptr && !request->done()) set |= vcis.of(*request);
  }
  return set != 0 ? set : 1;  // nothing to wait for; the caller may still poll
}

Found find_done(p2p::Vcis& vcis, std::span<MPI_Request> handles, bool block, Outcomes outcomes) noexcept {
  Found found;
  for (bool first_poll = true;; first_poll = false) {
    found.any_active = false;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      Request* request = active_request(handles[i]);
      if (request == nullptr) continue;
      found.any_active = true;
      if (!request->done()) continue;
      found.any_done = true;
      found.index = i;
      found.comm = request->comm();
      found.outcome = outcome_of(handles[i], *request, outcomes);
      return found;
    }
    if (!found.any_active) return found;
    if (block) {
      vcis.wait_until(vcis_of(vcis, handles), [&] { return any_done(handles); });
    } else if (first_poll) {
      vcis.progress_or_yield(vcis_of(vcis, handles));
    } else {
      return found;
    }
  }
}

}  // namespace mpi_shim
