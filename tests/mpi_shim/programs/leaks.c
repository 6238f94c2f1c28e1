/* SPDX-License-Identifier: Apache-2.0
 * Gives some of what it makes back, and some not; the variable mpi_leak_report tells which. */
#include "check.h"

/* What a library frees at the end is no leak. */
static MPI_Comm library;
static int free_at_the_end(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm;
  (void)key;
  (void)value;
  (void)extra;
  return MPI_Comm_free(&library);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  int key;
  CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &library), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_at_the_end, &key, NULL), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL), MPI_SUCCESS);
  MPI_Comm mine;
  MPI_Comm freed;
  CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &mine), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &freed), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_name(mine, "mine"), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_free(&freed), MPI_SUCCESS);
  MPI_Datatype row;
  MPI_Datatype rows;
  MPI_Datatype gone;
  CHECK_EQ(MPI_Type_contiguous(4, MPI_INT, &row), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_set_name(row, "row"), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_contiguous(4, MPI_INT, &gone), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_vector(2, 1, 3, gone, &rows), MPI_SUCCESS); /* made of one that is freed */
  CHECK_EQ(MPI_Type_free(&gone), MPI_SUCCESS);
  MPI_Datatype own;
  CHECK_EQ(MPI_Type_create_f90_integer(9, &own), MPI_SUCCESS); /* which cannot be freed */
  int value = 0;
  MPI_Request request;
  CHECK_EQ(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_SUCCESS);
  char* block;
  CHECK_EQ(MPI_Alloc_mem(100, MPI_INFO_NULL, &block), MPI_SUCCESS);
  CHECK_EQ(MPI_Free_mem(block), MPI_SUCCESS);
  CHECK_EQ(MPI_Alloc_mem(100, MPI_INFO_NULL, &block), MPI_SUCCESS);
  CHECK((size_t)block % 4096 == 0);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
