// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/predefined.hpp — the datatypes that the ABI names: one static object per handle value.
// Threads: safe from any thread.  The objects are made on first use; later only name and attributes change, and the
// application orders the calls of MPI_Type_set_name.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/datatype.hpp"

namespace mpi_shim::datatype {

/// The datatype with this handle value, e.g. 0x209 for MPI_INT; it lives until the process ends.  Null if there is
/// none; null for MPI_DATATYPE_NULL.
Datatype* predefined(std::uintptr_t handle);

/// Publishes all predefined datatypes in the handle table.  Called once, during MPI_Init.
void publish_predefined_types();

}  // namespace mpi_shim::datatype
