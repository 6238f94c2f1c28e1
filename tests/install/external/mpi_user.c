/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the numbers of the ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0, rank = -1, size = 0, sum = 0;
  if (MPI_Get_library_version(library, &length) != MPI_SUCCESS) return 1;
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("mpi_user: %d ranks over %s\n", size, library);
  MPI_Finalize();
  return sum != size * (size - 1) / 2;
}
