// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/forward.hpp — macros that define an MPI function with a Call (call.hpp).
//
//   OPAL_MPI_FORWARD(Recv_init, new_receive, Start::later)
//
// defines MPI_Recv_init as  return new_receive(call, buf, count, ..., request, Start::later);  with the parameters of
// functions.def, and with the extra arguments of the macro after them.
// Before that it checks that the pointers to results are not null, which the function then need not do.
//
//   OPAL_MPI_CALL(Group_size, (Call& call, MPI_Group group, int* size)) { ... }
//
// defines MPI_Group_size by its body.  Suffixes:
//   _BOTH      also defines the form with counts of MPI_Count (MPI_Recv_init_c)
//   _ANY_TIME  the function may be called before MPI_Init and after MPI_Finalize
//   _FAST      passes "MPI_Recv_init" instead of a Call, for a function that makes one only where it needs it
#pragma once
#include <mpi_parameters.hpp>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"

#define OPAL_MPI_FORWARD_WHEN(when, name, function, ...)                                                     \
  OPAL_MPI_FUNCTION(int, name, OPAL_MPI_PARAMETERS_##name) {                                                 \
    return Call::run(                                                                                        \
        "MPI_" #name,                                                                                        \
        [&](Call& call) {                                                                                    \
          OPAL_MPI_CHECKS_##name return function(call OPAL_MPI_ARGUMENTS_##name __VA_OPT__(, ) __VA_ARGS__); \
        },                                                                                                   \
        Call::When::when);                                                                                   \
  }
#define OPAL_MPI_FORWARD(...) OPAL_MPI_FORWARD_WHEN(running, __VA_ARGS__)
#define OPAL_MPI_FORWARD_ANY_TIME(...) OPAL_MPI_FORWARD_WHEN(any_time, __VA_ARGS__)
#define OPAL_MPI_FORWARD_BOTH(name, ...) \
  OPAL_MPI_FORWARD(name, __VA_ARGS__)    \
  OPAL_MPI_FORWARD(name##_c, __VA_ARGS__)

#define OPAL_MPI_FORWARD_FAST(name, function, ...)                                      \
  OPAL_MPI_FUNCTION(int, name, OPAL_MPI_PARAMETERS_##name) {                            \
    return function("MPI_" #name OPAL_MPI_ARGUMENTS_##name __VA_OPT__(, ) __VA_ARGS__); \
  }
#define OPAL_MPI_FORWARD_FAST_BOTH(name, ...) \
  OPAL_MPI_FORWARD_FAST(name, __VA_ARGS__)    \
  OPAL_MPI_FORWARD_FAST(name##_c, __VA_ARGS__)

#define OPAL_MPI_CALL_WHEN(when, name, parameters)  \
  static int body_of_##name parameters;             \
  OPAL_MPI_FORWARD_WHEN(when, name, body_of_##name) \
  static int body_of_##name parameters
#define OPAL_MPI_CALL(...) OPAL_MPI_CALL_WHEN(running, __VA_ARGS__)
#define OPAL_MPI_CALL_ANY_TIME(...) OPAL_MPI_CALL_WHEN(any_time, __VA_ARGS__)
