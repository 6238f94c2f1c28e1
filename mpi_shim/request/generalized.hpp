// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/generalized.hpp — a generalized request (MPI_Grequest_start): the program completes it, and the
// program's callbacks supply its status.  It owns itself: dismiss() destroys it.
// Threads: callbacks run without any lock held, in the thread that waits, tests, cancels, completes or frees.
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

  /// Null: `request` is no generalized request.
  static Generalized* from(Request& request) noexcept;

  /// MPI_Grequest_complete.  Requires: called once, while active.  True: the program has already freed the request, and
  /// the caller calls dismiss().
  [[nodiscard]] bool complete() noexcept { return finish_and_keep(); }
  /// Calls the cancel callback and returns its error code.
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
