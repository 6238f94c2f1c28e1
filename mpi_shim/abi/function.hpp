// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/function.hpp — the one macro with which an MPI function is implemented.
//
//   OPAL_MPI_FUNCTION(int, Barrier, (MPI_Comm comm)) { ... }
//
// defines PMPI_Barrier (strong) and MPI_Barrier (weak, the same address), both exported with C linkage; mpi.h already
// declares both, so a wrong signature does not compile.  A profiling tool defines its own MPI_Barrier and calls
// PMPI_Barrier.  No other registration is needed: the build finds the definition in the object file and omits the entry
// point that reports "not supported".  `cmake --build build --target mpi_coverage` updates docs/mpi-coverage.md.
// The library itself calls neither MPI_X nor PMPI_X, since a profiling tool would see the call: share a C++ function.
#pragma once
#include "mpi_shim/include/mpi.h"
#include "opal/core/export.hpp"

#define OPAL_MPI_FUNCTION(result, name, parameters)                                                \
  extern "C" OPAL_EXPORT result MPI_##name parameters __attribute__((weak, alias("PMPI_" #name))); \
  extern "C" OPAL_EXPORT result PMPI_##name parameters
