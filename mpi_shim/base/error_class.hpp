// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/error_class.hpp — the names and texts of MPI's error classes, and the first of two
// errors.  Threads: no state.
#pragma once

namespace mpi_shim {

/// `first` if it is an error, else `second`.  0 is MPI_SUCCESS.
inline int first_error(int first, int second) noexcept { return first != 0 ? first : second; }

/// The name of an error class of the standard, such as "MPI_ERR_RANK"; null for any other number.  Static lifetime.
const char* error_class_name(int error_class) noexcept;

/// The description of an error class of the standard, such as "invalid rank"; null for any other number.
const char* error_class_text(int error_class) noexcept;

}  // namespace mpi_shim
