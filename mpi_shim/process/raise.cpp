// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/raise.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/process/process.hpp"
#include "mpi_shim/rma/window.hpp"
#include "runtime/client/client.hpp"

namespace mpi_shim {
namespace {

constexpr const char* kUnsupported = "is not supported yet";

/// Ends the job, or, before MPI_Init and after MPI_Finalize, the process.
[[noreturn]] void end(int error_class, const std::string& text) {
  if (Process* process = Process::current()) process->abort(error_class, text);
  std::fprintf(stderr, "%s\n", text.c_str());
  runtime::Client::flush_files();
  ::_exit(error_class != 0 ? error_class : 1);
}

std::string describe(const char* where, int error_class, const char* function, const char* message) {
  const char* class_name = error_class_name(error_class);
  return fmt::format("{}: {}: {} ({})", where, function, message,
                     class_name != nullptr ? class_name : fmt::format("error code {}", error_class));
}

}  // namespace

int raise(ErrorScope scope, int error_class, const char* function, const char* message) {
  if (scope.kind == ErrorScope::Kind::file) return error_class;  // the standard's default for files
  Process* const process = Process::current();
  if (process == nullptr) {
    const char* when = Process::state() == Process::State::finished ? "after MPI_Finalize" : "before MPI_Init";
    end(error_class, describe(when, error_class, function, message));
  }
  comm::ErrhandlerRef handler;
  auto win = static_cast<MPI_Win>(scope.handle);
  auto comm = static_cast<MPI_Comm>(scope.handle);
  if (scope.kind == ErrorScope::Kind::win) {
    if (const auto* const window = handle::find<rma::Window>(win)) handler = window->errhandler.get();
  } else if (scope.kind == ErrorScope::Kind::comm) {
    handler = process->communicators().errhandler_of(comm);
  }
  if (!handler) {
    const comm::Communicator& communicator = process->communicators().default_for_errors();
    handler = communicator.errhandler.get();
    comm = communicator.mpi_handle();
  }
  switch (handler->kind) {
    case comm::Errhandler::Kind::returning: return error_class;
    case comm::Errhandler::Kind::comm_function: handler->function(&comm, &error_class, function); return error_class;
    case comm::Errhandler::Kind::win_function: handler->win_function(&win, &error_class, function); return error_class;
    case comm::Errhandler::Kind::fatal:
    case comm::Errhandler::Kind::abort: break;
  }
  end(error_class, describe(fmt::format("rank {}", process->job().rank()).c_str(), error_class, function, message));
}

int unsupported(const char* function, ErrorScope scope) {
  // Errors of files return by default, and few programs look at them.
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (scope.kind == ErrorScope::Kind::file && !said.test_and_set()) {
    std::fprintf(stderr, "%s %s; nor is any other function of files\n", function, kUnsupported);
  }
  return raise(scope, MPI_ERR_UNSUPPORTED_OPERATION, function, kUnsupported);
}

int unsupported_tool(const char* function) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (!said.test_and_set()) std::fprintf(stderr, "%s %s; nor is the rest of MPI_T\n", function, kUnsupported);
  return MPI_T_ERR_NOT_SUPPORTED;
}

void unsupported_value(const char* function) {
  unsupported(function);
  end(MPI_ERR_UNSUPPORTED_OPERATION, std::string{function} + ' ' + kUnsupported);
}

}  // namespace mpi_shim
