// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/abi/unsupported.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace opal::mpi {
namespace {

constexpr const char* kMessage = "is not supported yet (MPI_ERR_UNSUPPORTED_OPERATION)";

// What MPI's default error handlers do: files return the error, everything else ends the job.
int raise_by_default(ErrorScope scope, int error_class, const char* function, const char* message) {
  if (scope.kind == ErrorScope::Kind::file) return error_class;
  std::fprintf(stderr, "%s %s\n", function, message);
  std::fflush(nullptr);
  ::_exit(error_class);
}

std::atomic<RaiseHook> raise_hook{raise_by_default};

}  // namespace

void set_raise_hook(RaiseHook hook) noexcept {
  raise_hook.store(hook != nullptr ? hook : raise_by_default, std::memory_order_release);
}

int unsupported(const char* function, ErrorScope scope) {
  // Errors of files return by default, and few programs look at them.
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (scope.kind == ErrorScope::Kind::file && !said.test_and_set()) {
    std::fprintf(stderr, "%s %s; nor is any other function of files\n", function, kMessage);
  }
  return raise_hook.load(std::memory_order_acquire)(scope, MPI_ERR_UNSUPPORTED_OPERATION, function, kMessage);
}

int unsupported_tool(const char* function) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (!said.test_and_set()) std::fprintf(stderr, "%s %s; nor is the rest of MPI_T\n", function, kMessage);
  return MPI_T_ERR_NOT_SUPPORTED;
}

void unsupported_value(const char* function) {
  unsupported(function);
  raise_by_default({}, MPI_ERR_UNSUPPORTED_OPERATION, function, kMessage);
  ::_exit(MPI_ERR_UNSUPPORTED_OPERATION);  // not reached: tells the compiler so
}

}  // namespace opal::mpi
