// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/generalized.hpp — an operation of the program's own behind an MPI_Request (MPI_Grequest_start): the
// program says when it is done, and its callbacks say how it went.  Ends itself when the program lets it go.
// Threads: callbacks run without any lock held, in the thread that waits, tests, cancels or frees.
#pragma once
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

class Generalized final : public Request {
 public:
  struct Callbacks {
    MPI_Grequest_query_function* query;
    MPI_Grequest_free_function* free;
    MPI_Grequest_cancel_function* cancel;
    void* extra_state;
  };
  explicit Generalized(const Callbacks& callbacks) noexcept : Request(kActions, nullptr), callbacks_(callbacks) {}

  /// Null: the request is of another kind.
  static Generalized* from(Request& request) noexcept;

  /// MPI_Grequest_complete; once, while active.  True: the program has let it go, the caller has to dismiss() it.
  [[nodiscard]] bool complete() noexcept { return finish_and_keep(); }
  /// What the cancel callback returns.
  int cancel_by_callback() noexcept {
    return callbacks_.cancel != nullptr ? callbacks_.cancel(callbacks_.extra_state, done()) : MPI_SUCCESS;
  }

 private:
  static const Actions kActions;
  void ask() noexcept;
  int end() noexcept;

  const Callbacks callbacks_;
};

}  // namespace mpi_shim
