// SPDX-License-Identifier: Apache-2.0
// MPI_Init, MPI_Finalize, MPI_Abort, and queries about the environment.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/include/mpi-ext.h"
#include "opal/core/environment.hpp"
#include "opal/gpu/gpu.hpp"

namespace mpi_shim::api {
namespace {

/// Raises an error of initialisation or finalisation: with the default error handler, or, if MPI does not run, by
/// ending the process.
int refuse(const char* function, const std::string& why) { return raise({}, MPI_ERR_OTHER, function, why.c_str()); }

int start(const char* function, int thread_level) {
  if (Process::state() == Process::State::running) return refuse(function, "MPI is already initialised");
  if (Process::state() == Process::State::finished)
    return refuse(function, "MPI is finalised and cannot be initialised again");
  if (const auto started = Process::start(thread_level); !started) {
    return refuse(function, "cannot start: " + to_string(started.error()));
  }
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FUNCTION(int, Init, (int* /*argc*/, char*** /*argv*/)) { return start("MPI_Init", MPI_THREAD_SINGLE); }

OPAL_MPI_FUNCTION(int, Init_thread, (int* /*argc*/, char*** /*argv*/, int required, int* provided)) {
  if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE) {
    return refuse("MPI_Init_thread", fmt::format("argument required is {}, which is not a thread level", required));
  }
  if (const int error = start("MPI_Init_thread", required); error != MPI_SUCCESS) return error;
  *provided = required;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Finalize, (Call & call)) {
  int error = MPI_SUCCESS;
  const auto check = [&](const Result<void>& result) {
    if (!result && error == MPI_SUCCESS) error = refuse("MPI_Finalize", to_string(result.error()));
  };
  check(call.process().leave());  // before stop(), which destroys the error handler
  check(Process::stop());
  return error;
}

OPAL_MPI_FUNCTION(int, Initialized, (int* flag)) {
  *flag = Process::state() != Process::State::not_started;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Finalized, (int* flag)) {
  *flag = Process::state() == Process::State::finished;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Query_thread, (Call & call, int* provided)) {
  return call.answer(provided, call.process().thread_level());
}

OPAL_MPI_CALL(Is_thread_main, (Call & call, int* flag)) { return call.answer(flag, call.process().is_main_thread()); }

OPAL_MPI_FUNCTION(int, Abort, (MPI_Comm /*comm*/, int errorcode)) {
  Process* const process = Process::current();
  if (process == nullptr) {
    std::fprintf(stderr, "MPI_Abort(%d) before MPI_Init or after MPI_Finalize\n", errorcode);
    ::_exit((errorcode & 0xff) != 0 ? errorcode : 1);  // never exit status 0
  }
  process->abort(errorcode,
                 fmt::format("rank {} called MPI_Abort with error code {}", process->job().rank(), errorcode));
}

OPAL_MPI_CALL(Get_processor_name, (Call & call, char* name, int* resultlen)) {
  return call.answer_name(opal::host_name().substr(0, MPI_MAX_PROCESSOR_NAME - 1), name, resultlen);
}

extern "C" OPAL_EXPORT int MPIX_Query_cuda_support(void) { return opal::gpu::active() ? 1 : 0; }

}  // namespace mpi_shim::api
