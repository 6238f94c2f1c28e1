// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/function.hpp — the one macro with which an MPI function is implemented.
//
//   OPAL_MPI_FUNCTION(int, Barrier, (MPI_Comm comm)) { ... }
//
// defines PMPI_Barrier (strong) and MPI_Barrier (weak, the same address), both exported with C linkage; mpi.h already
// declares both, so a wrong signature does not compile.  A profiling tool defines its own MPI_Barrier and calls
// PMPI_Barrier.  Nothing else is to be done: the build finds the definition in the object file, leaves out the refusing
// entry point and moves the function in docs/mpi-coverage.md (`cmake --build build --target mpi_coverage`).
// Inside the library call neither MPI_X nor PMPI_X: a tool would see it; share a C++ function instead.
#pragma once
#include "mpi_shim/include/mpi.h"
#include "opal/core/export.hpp"

#define OPAL_MPI_FUNCTION(result, name, parameters)                                                \
  extern "C" OPAL_EXPORT result MPI_##name parameters __attribute__((weak, alias("PMPI_" #name))); \
  extern "C" OPAL_EXPORT result PMPI_##name parameters
