// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/request/generalized.hpp"

#include "mpi_shim/request/status.hpp"

namespace mpi_shim {

const Request::Actions Generalized::kActions{
    act<&Generalized::begin>,
    [](Request& self) noexcept { static_cast<Generalized&>(self).end(); },
    nullptr,  // MPI_Cancel calls cancel_by_callback()
    act<&Generalized::ask>,
    act<&Generalized::end>,
};

int Generalized::end() noexcept {
  const int error = callbacks_.free != nullptr ? callbacks_.free(callbacks_.extra_state) : MPI_SUCCESS;
  retire();
  return error;
}

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
