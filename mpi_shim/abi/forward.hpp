// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/forward.hpp — macros that define an MPI function as one call of a C++ function.
//
//   OPAL_MPI_FORWARD(Recv_init, new_receive, Start::later)
//
// defines MPI_Recv_init as  return new_receive("MPI_Recv_init", buf, count, ..., request, Start::later);  with the
// parameters of functions.def, and with the extra arguments of the macro behind them.
// OPAL_MPI_FORWARD_BOTH defines MPI_Recv_init and MPI_Recv_init_c (counts of MPI_Count) in this way.
#pragma once
#include <mpi_parameters.hpp>
#include "mpi_shim/abi/function.hpp"

#define OPAL_MPI_FORWARD(name, function, ...)                                           \
  OPAL_MPI_FUNCTION(int, name, OPAL_MPI_PARAMETERS_##name) {                            \
    return function("MPI_" #name OPAL_MPI_ARGUMENTS_##name __VA_OPT__(, ) __VA_ARGS__); \
  }

#define OPAL_MPI_FORWARD_BOTH(name, ...) \
  OPAL_MPI_FORWARD(name, __VA_ARGS__)    \
  OPAL_MPI_FORWARD(name##_c, __VA_ARGS__)
