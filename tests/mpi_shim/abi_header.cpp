// SPDX-License-Identifier: Apache-2.0
// mpi.h alone and with its additions, under the warnings of pedantic users.  Compiled as C++11 and C++20; nothing runs.
#include <mpi.h>

int abi_header_as_cxx(MPI_Comm comm);

int abi_header_as_cxx(MPI_Comm comm) {
  static const MPI_Datatype kType = MPI_DOUBLE_INT;
  static const MPI_Op kOp = MPI_MINLOC;
  struct {
    double value;
    int index;
  } in = {1.0, 2}, out = {0.0, 0};
  int result = MPI_Allreduce(&in, &out, 1, kType, kOp, comm);
  if (result == MPI_SUCCESS) result = MPI_Allreduce(MPI_IN_PLACE, &out, 1, kType, kOp, comm);
  int keyval = MPI_KEYVAL_INVALID;
  if (result == MPI_SUCCESS)
    result = MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, nullptr);
#ifndef OPAL_MPI_NO_COMPAT
  if (MPI_Type_f2c(MPI_Type_c2f(kType)) != kType) result = MPI_ERR_TYPE;
#endif
  return result + out.index;
}
