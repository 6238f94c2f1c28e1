// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/generator/emit.hpp — the texts of the files that are generated from functions.def (table.hpp).
// Threads: pure functions.
#pragma once
#include <string>

#include "mpi_shim/abi/generator/table.hpp"

namespace opal::mpi::abi {

/// mpi_functions.h: the prototypes of all functions under both names.
std::string emit_prototypes(const Table& table);

/// The parameters and the arguments of each function, and the checks of the pointers to its results, as macros for
/// OPAL_MPI_FORWARD (mpi_shim/api/forward.hpp).
std::string emit_parameters(const Table& table);

/// A C++ file with one entry point for each function that the table does not mark as implemented.  Most of these entry
/// points raise an error that names the function.
std::string emit_refusals(const Table& table);

/// A C++ file with the Fortran entry points (mpi_send_) whose arguments are all converted by rule.  The other entry
/// points are written by hand (mpi_shim/fortran/).
std::string emit_fortran_entries(const Table& table);

/// The interface block of Fortran's module mpi.
std::string emit_fortran_interfaces(const Table& table);

/// mpif.h, from `header`: the text of mpi.h.
std::string emit_fortran_constants(std::istream& header);

/// docs/mpi-coverage.md: which functions are implemented.
std::string emit_coverage(const Table& table);

}  // namespace opal::mpi::abi
