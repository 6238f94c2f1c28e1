// SPDX-License-Identifier: Apache-2.0
// MPI_*_toint and MPI_*_fromint: handles as integers, for Fortran and the c2f and f2c functions.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/handle/table.hpp"

#define OPAL_MPI_INTEGER_HANDLE(name, type)                                                            \
  OPAL_MPI_FUNCTION(int, name##_toint, (type handle)) { return mpi_shim::handle::to_integer(handle); } \
  OPAL_MPI_FUNCTION(type, name##_fromint, (int integer)) { return mpi_shim::handle::from_integer<type>(integer); }

OPAL_MPI_INTEGER_HANDLE(Comm, MPI_Comm)
OPAL_MPI_INTEGER_HANDLE(Errhandler, MPI_Errhandler)
OPAL_MPI_INTEGER_HANDLE(File, MPI_File)
OPAL_MPI_INTEGER_HANDLE(Group, MPI_Group)
OPAL_MPI_INTEGER_HANDLE(Info, MPI_Info)
OPAL_MPI_INTEGER_HANDLE(Message, MPI_Message)
OPAL_MPI_INTEGER_HANDLE(Op, MPI_Op)
OPAL_MPI_INTEGER_HANDLE(Request, MPI_Request)
OPAL_MPI_INTEGER_HANDLE(Session, MPI_Session)
OPAL_MPI_INTEGER_HANDLE(Type, MPI_Datatype)
OPAL_MPI_INTEGER_HANDLE(Win, MPI_Win)
