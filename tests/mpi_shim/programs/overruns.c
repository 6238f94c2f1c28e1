/* SPDX-License-Identifier: Apache-2.0
 * Writes behind a block of MPI_Alloc_mem, writes to one that it has freed, and does not free a third; the variable
 * mpool_guard finds each. */
#include "check.h"

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  char* behind;
  char* freed;
  char* kept;
  CHECK_EQ(MPI_Alloc_mem(200, MPI_INFO_NULL, &behind), MPI_SUCCESS);
  CHECK_EQ(MPI_Alloc_mem(100, MPI_INFO_NULL, &freed), MPI_SUCCESS);
  CHECK_EQ(MPI_Alloc_mem(300, MPI_INFO_NULL, &kept), MPI_SUCCESS);
  behind[200] = 1;
  CHECK_EQ(MPI_Free_mem(behind), MPI_SUCCESS);
  CHECK_EQ(MPI_Free_mem(freed), MPI_SUCCESS);
  ((volatile char*)freed)[5] = 1;
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
