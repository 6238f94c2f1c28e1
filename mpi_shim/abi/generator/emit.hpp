// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/generator/emit.hpp — the files made from the function table.  Pure functions from a table to a text.
#pragma once
#include <string>

#include "mpi_shim/abi/generator/table.hpp"

namespace opal::mpi::abi {

/// mpi_functions.h: the prototypes of all functions under both names.
std::string emit_prototypes(const Table& table);

/// The parameters and the arguments of each function as macros, for OPAL_MPI_FORWARD (mpi_shim/abi/forward.hpp).
std::string emit_parameters(const Table& table);

/// The linker's version script: exactly the MPI_ and PMPI_ names are exported.
std::string emit_export_map(const Table& table);

/// A C++ file with an entry point that refuses by name for each function the table does not mark as implemented.
std::string emit_refusals(const Table& table);

/// A C++ file with the entry points of Fortran programs (mpi_send_) that can be made by rule from the C functions.
std::string emit_fortran_entries(const Table& table);

/// The interfaces of the procedures in Fortran's module mpi.
std::string emit_fortran_interfaces(const Table& table);

/// mpif.h from the text of mpi.h.
std::string emit_fortran_constants(std::istream& header);

/// docs/mpi-coverage.md.
std::string emit_coverage(const Table& table);

}  // namespace opal::mpi::abi
