// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/raise.hpp — an MPI function has failed: the error handler of the object concerned decides what
// happens. Threads: safe from any thread; a user's handler runs in the caller's.
#pragma once
#include "mpi_shim/include/mpi.h"

namespace mpi_shim {

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

/// Raises `error_class` on `scope`'s handler: prints "rank 3: MPI_Send: <message> (MPI_ERR_RANK)" and ends the job, or
/// calls the program's function, or does nothing.  Returns what the MPI function is to return.
int raise(ErrorScope scope, int error_class, const char* function, const char* message);

// --- Functions that are not there yet (abi/generator/emit.cpp)
/// Raises MPI_ERR_UNSUPPORTED_OPERATION.  Of a file: says so once on stderr, too, since errors of files return.
int unsupported(const char* function, ErrorScope scope = {});
/// An MPI_T function: these never call an error handler.  Says so once on stderr, returns MPI_T_ERR_NOT_SUPPORTED.
int unsupported_tool(const char* function);
/// A function that returns a value and no error code: there is no answer that is not wrong, so the process ends even
/// where the handler would have returned.
[[noreturn]] void unsupported_value(const char* function);

}  // namespace mpi_shim
