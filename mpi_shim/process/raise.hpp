// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/raise.hpp — raises the error of an MPI function on the error handler of its communicator, window
// or file.  Threads: any; the program's error handler runs in the calling thread.
#pragma once
#include "mpi_shim/include/mpi.h"

namespace mpi_shim {

/// The object on whose error handler an error is raised.  Without a valid object: Communicators::default_for_errors().
struct ErrorScope {
  enum class Kind { none, comm, win, file };
  Kind kind = Kind::none;  ///< none: the function has no such argument
  void* handle = nullptr;  ///< the MPI_Comm, MPI_Win or MPI_File; may be invalid

  ErrorScope() = default;
  ErrorScope(MPI_Comm comm) noexcept : kind(Kind::comm), handle(comm) {}  // NOLINT(google-explicit-constructor)
  ErrorScope(MPI_Win win) noexcept : kind(Kind::win), handle(win) {}      // NOLINT(google-explicit-constructor)
  ErrorScope(MPI_File file) noexcept : kind(Kind::file), handle(file) {}  // NOLINT(google-explicit-constructor)
};

/// Raises `error_class` on the handler of `scope`.  The handler prints "rank 3: MPI_Send: <message> (MPI_ERR_RANK)" and
/// ends the job, calls the program's function, or does nothing.  Returns the value that the MPI function returns.
int raise(ErrorScope scope, int error_class, const char* function, const char* message);

// --- MPI functions without an implementation (abi/generator/emit.cpp)
/// Raises MPI_ERR_UNSUPPORTED_OPERATION.  For a file it also prints a line on stderr, once, since errors of files only
/// return.
int unsupported(const char* function, ErrorScope scope = {});
/// For MPI_T functions, which call no error handler: prints a line on stderr once, returns MPI_T_ERR_NOT_SUPPORTED.
int unsupported_tool(const char* function);
/// For functions that return a value instead of an error code: no value would be right, so it raises the error and then
/// ends the job even if the handler returns.
[[noreturn]] void unsupported_value(const char* function);

}  // namespace mpi_shim
