// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/request/generalized.hpp"

#include "mpi_shim/request/status.hpp"

namespace mpi_shim {

const Request::Actions Generalized::kActions{
    [](Request& self) noexcept { static_cast<Generalized&>(self).begin(); },
    [](Request& self) noexcept {
      const Callbacks& callbacks = static_cast<Generalized&>(self).callbacks_;
      if (callbacks.free != nullptr) callbacks.free(callbacks.extra_state);
      self.retire();
    },
    [](Request& self) noexcept {
      const Callbacks& callbacks = static_cast<Generalized&>(self).callbacks_;
      return callbacks.cancel != nullptr && callbacks.cancel(callbacks.extra_state, self.done()) == MPI_SUCCESS;
    },
    [](Request& self) noexcept { static_cast<Generalized&>(self).ask(); },
};

Generalized* Generalized::from(Request& request) noexcept {
  return request.has_actions(kActions) ? static_cast<Generalized*>(&request) : nullptr;
}

void Generalized::ask() noexcept {
  MPI_Status status{};
  status.MPI_SOURCE = MPI_ANY_SOURCE;
  status.MPI_TAG = MPI_ANY_TAG;
  const int error = callbacks_.query != nullptr ? callbacks_.query(callbacks_.extra_state, &status) : MPI_SUCCESS;
  outcome_.source = status.MPI_SOURCE;
  outcome_.tag = status.MPI_TAG;
  outcome_.bytes = bytes_of(status);
  outcome_.cancelled = is_cancelled(status);
  outcome_.error = error;
}

}  // namespace mpi_shim
