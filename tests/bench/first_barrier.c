/* SPDX-License-Identifier: Apache-2.0 */
/* The least that an MPI program does: what tests/bench/launch starts. */
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
