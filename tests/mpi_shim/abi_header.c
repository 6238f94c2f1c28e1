// SPDX-License-Identifier: Apache-2.0
// mpi.h alone and with its additions, under the warnings of pedantic users.  Compiled as C11; nothing runs.
#include <mpi.h>

int abi_header_as_c(int* argc, char*** argv);

/* Partitioned operations have one form, whose count is large. */
typedef int partitioned_send(const void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*);
typedef int partitioned_receive(void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request*);
partitioned_send MPI_Psend_init;
partitioned_receive MPI_Precv_init;

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
#ifndef OPAL_MPI_NO_COMPAT
  MPI_Aint address;
  if (result == MPI_SUCCESS) result = MPI_Address(&value, &address);
  if (MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) != MPI_COMM_WORLD) result = MPI_ERR_COMM;
#endif
  return result;
}
