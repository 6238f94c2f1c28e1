// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/error_class.hpp — the names and texts of MPI's error classes.  Threads: constants only.
#pragma once

namespace mpi_shim {

/// "MPI_ERR_RANK" for a class of the standard; null for any other number.
const char* error_class_name(int error_class) noexcept;

/// "invalid rank"; null for any other number.
const char* error_class_text(int error_class) noexcept;

}  // namespace mpi_shim
