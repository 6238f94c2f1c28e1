// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/leaks.hpp — what a program has not given back when MPI ends.  Threads: while no other is inside MPI.
#pragma once
#include <string>

namespace mpi_shim {

/// One line for each kind of object that still has handles: how many, and the names or handles of the first; empty
/// when there is nothing to say.  Objects of the library's own are none of the program's.
std::string describe_leaks();

}  // namespace mpi_shim
