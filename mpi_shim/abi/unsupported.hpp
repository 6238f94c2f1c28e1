// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/unsupported.hpp — how a function that is not there yet refuses: by name, through the error handler.
// Used by the generated entry points, and by an implementation for the case it does not cover ("MPI_Pack_external of
// pair types").  Owns one process-wide hook, set by the core when it starts.  Threads: safe from any thread.
#pragma once
#include "mpi_shim/include/mpi.h"

namespace opal::mpi {

/// The object on whose error handler an error is raised.
struct ErrorScope {
  enum class Kind { none, comm, win, file, session };
  Kind kind = Kind::none;  ///< none: the function names no object (Communicators::default_for_errors)
  void* handle = nullptr;  ///< the MPI_Comm, MPI_Win, MPI_File or MPI_Session, not checked yet

  ErrorScope() = default;
  ErrorScope(MPI_Comm comm) noexcept : kind(Kind::comm), handle(comm) {}  // NOLINT(google-explicit-constructor)
  ErrorScope(MPI_Win win) noexcept : kind(Kind::win), handle(win) {}      // NOLINT(google-explicit-constructor)
  ErrorScope(MPI_File file) noexcept : kind(Kind::file), handle(file) {}  // NOLINT(google-explicit-constructor)
  ErrorScope(MPI_Session session) noexcept
      : kind(Kind::session), handle(session) {}  // NOLINT(google-explicit-constructor)
};

/// Raises `error_class` on `scope`'s handler and returns what the MPI function is to return; may not return at all.
/// `function` is the MPI name, `message` the text without it; both are valid during the call only.
using RaiseHook = int (*)(ErrorScope scope, int error_class, const char* function, const char* message);

/// Replaces the way errors are raised; null puts back the first one, which knows the default handlers only: it prints,
/// then ends the process with the error class as status, or returns the class for files.
void set_raise_hook(RaiseHook hook) noexcept;

/// Refuses `function` ("MPI_Xyz"): MPI_ERR_UNSUPPORTED_OPERATION on the handler of `scope`.  Returns the error code.
/// Of a file: says so once on stderr, too, since errors of files return by default.
int unsupported(const char* function, ErrorScope scope = {});

/// Refuses an MPI_T function: these never call an error handler.  Says so once on stderr, returns
/// MPI_T_ERR_NOT_SUPPORTED.
int unsupported_tool(const char* function);

/// Refuses a function that returns a value and no error code: there is no answer that is not wrong, so the process ends
/// even where the handler would have returned.
[[noreturn]] void unsupported_value(const char* function);

}  // namespace opal::mpi
