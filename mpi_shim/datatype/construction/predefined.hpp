// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/predefined.hpp — the datatypes that the ABI names: one static object per handle value.
// Threads: made on first use.  Only the name changes afterwards (MPI_Type_set_name); the program orders these calls.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/datatype.hpp"

namespace mpi_shim::datatype {

/// The type with this handle value, e.g. 0x209 for MPI_INT, which lives until the process ends; null when there is none
/// (MPI_DATATYPE_NULL included).
Datatype* predefined(std::uintptr_t handle);

/// Publishes all of them in the handle table; once, while MPI is started.
void publish_predefined_types();

}  // namespace mpi_shim::datatype
