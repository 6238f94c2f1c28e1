// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/raise.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/process/process.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim {
namespace {

/// Ends the job, or, when there is none (any more), the process.
[[noreturn]] void end(int error_class, const std::string& text) {
  if (Process* process = Process::current()) process->abort(error_class, text);
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(nullptr);
  ::_exit(error_class != 0 ? error_class : 1);
}

rma::Window* find_window(ErrorScope scope) { return handle::find<rma::Window>(static_cast<MPI_Win>(scope.handle)); }

std::string describe(const char* who, int error_class, const char* function, const char* message) {
  const char* class_name = error_class_name(error_class);
  return fmt::format("{}: {}: {} ({})", who, function, message,
                     class_name != nullptr ? class_name : fmt::format("error code {}", error_class));
}

}  // namespace

int raise(ErrorScope scope, int error_class, const char* function, const char* message) {
  Process* const process = Process::current();
  if (process == nullptr) {
    const char* when = Process::life() == Process::Life::finished ? "after MPI_Finalize" : "before MPI_Init";
    end(error_class, describe(when, error_class, function, message));
  }
  if (scope.kind == ErrorScope::Kind::file) return error_class;  // the standard's default for files
  if (rma::Window* window = scope.kind == ErrorScope::Kind::win ? find_window(scope) : nullptr) {
    const std::shared_ptr<const comm::Errhandler> handler = window->errhandler.get();
    if (handler->kind == comm::Errhandler::Kind::win_function) {
      MPI_Win win = window->mpi_handle();
      handler->win_function(&win, &error_class, function);
      return error_class;
    }
    if (handler->kind == comm::Errhandler::Kind::returning) return error_class;
    end(error_class, describe(fmt::format("rank {}", process->job().rank()).c_str(), error_class, function, message));
  }
  comm::Communicator* communicator = nullptr;
  if (scope.kind == ErrorScope::Kind::comm) {
    communicator = handle::find<comm::Communicator>(static_cast<MPI_Comm>(scope.handle));
  }
  if (communicator == nullptr) communicator = &process->communicators().default_for_errors();
  MPI_Comm handle = communicator->mpi_handle();
  const std::shared_ptr<const comm::Errhandler> handler = communicator->errhandler.get();
  switch (handler->kind) {
    case comm::Errhandler::Kind::returning: return error_class;
    case comm::Errhandler::Kind::comm_function: handler->function(&handle, &error_class, function); return error_class;
    case comm::Errhandler::Kind::win_function:
    case comm::Errhandler::Kind::fatal:
    case comm::Errhandler::Kind::abort: break;
  }
  end(error_class, describe(fmt::format("rank {}", process->job().rank()).c_str(), error_class, function, message));
}

}  // namespace mpi_shim
