// SPDX-License-Identifier: Apache-2.0
// mpi.h alone and with its additions, under the warnings of pedantic users.  Compiled as C11; nothing runs.
#include <mpi.h>

int abi_header_as_c(int* argc, char*** argv);

int abi_header_as_c(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  int result = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  switch (result) {
    case MPI_SUCCESS: break;
    case MPI_ERR_OTHER: return MPI_UNDEFINED;
    default: return result;
  }
  double value = MPI_Wtime();
  result = MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (result == MPI_SUCCESS)
    result = MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
#ifdef OPAL_MPI_COMPAT
  MPI_Aint address;
  if (result == MPI_SUCCESS) result = MPI_Address(&value, &address);
  if (MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) != MPI_COMM_WORLD) result = MPI_ERR_COMM;
#endif
  return result;
}
