/* SPDX-License-Identifier: Apache-2.0
 * Datatypes by decimal precision and range: which representation they get, that equal arguments give the same type, and
 * that such a type is used like a predefined one in messages, reductions, windows and types made of it. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

static MPI_Datatype real_kind(int precision, int range) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK_EQ(MPI_Type_create_f90_real(precision, range, &type), MPI_SUCCESS);
  return type;
}
static MPI_Datatype complex_kind(int precision, int range) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK_EQ(MPI_Type_create_f90_complex(precision, range, &type), MPI_SUCCESS);
  return type;
}
static MPI_Datatype integer_kind(int range) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  CHECK_EQ(MPI_Type_create_f90_integer(range, &type), MPI_SUCCESS);
  return type;
}
static int size_of(MPI_Datatype type) {
  int bytes = -1;
  CHECK_EQ(MPI_Type_size(type, &bytes), MPI_SUCCESS);
  return bytes;
}

static void sizes(void) {
  CHECK_EQ(size_of(real_kind(6, 37)), 4);
  CHECK_EQ(size_of(real_kind(7, 37)), 8);
  CHECK_EQ(size_of(real_kind(6, 38)), 8); /* the range of 4 bytes ends at 37 */
  CHECK_EQ(size_of(real_kind(15, 307)), 8);
  CHECK_EQ(size_of(real_kind(16, MPI_UNDEFINED)), 16);
  CHECK_EQ(size_of(real_kind(MPI_UNDEFINED, 308)), 16);
  CHECK_EQ(size_of(real_kind(33, 4931)), 16);
  CHECK_EQ(size_of(complex_kind(6, MPI_UNDEFINED)), 8);
  CHECK_EQ(size_of(complex_kind(15, 307)), 16);
  CHECK_EQ(size_of(complex_kind(33, 4931)), 32);
  const int ranges[] = {1, 2, 3, 4, 5, 9, 10, 18, 19, 38};
  const int bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16};
  for (int i = 0; i < 10; ++i) CHECK_EQ(size_of(integer_kind(ranges[i])), bytes[i]);
}

static void contents(void) {
  MPI_Datatype type = real_kind(7, MPI_UNDEFINED);
  CHECK(type == real_kind(7, MPI_UNDEFINED));
  CHECK(type != real_kind(8, MPI_UNDEFINED));
  CHECK(type != complex_kind(7, MPI_UNDEFINED));
  int integers = -1, addresses = -1, types = -1, combiner = -1;
  int values[2] = {0, 0};
  CHECK_EQ(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 2 && addresses == 0 && types == 0 && combiner == MPI_COMBINER_F90_REAL);
  CHECK_EQ(MPI_Type_get_contents(type, 2, 0, 0, values, NULL, NULL), MPI_SUCCESS);
  CHECK(values[0] == 7 && values[1] == MPI_UNDEFINED);
  CHECK_EQ(MPI_Type_get_envelope(complex_kind(7, 30), &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 2 && types == 0 && combiner == MPI_COMBINER_F90_COMPLEX);
  CHECK_EQ(MPI_Type_get_envelope(integer_kind(12), &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 1 && types == 0 && combiner == MPI_COMBINER_F90_INTEGER);
  CHECK_EQ(MPI_Type_get_contents(integer_kind(12), 1, 0, 0, values, NULL, NULL), MPI_SUCCESS);
  CHECK_EQ(values[0], 12);

  MPI_Datatype pair = MPI_DATATYPE_NULL, part = MPI_DATATYPE_NULL;
  CHECK_EQ(MPI_Type_contiguous(2, type, &pair), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_contents(pair, 1, 0, 1, values, NULL, &part), MPI_SUCCESS);
  CHECK(part == type); /* as for a predefined part, which is not to be freed */
  CHECK_EQ(MPI_Type_free(&pair), MPI_SUCCESS);
}

static void mistakes(void) {
  MPI_Datatype type = real_kind(7, 30);
  const MPI_Datatype same = type;
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&type), MPI_ERR_TYPE); /* it is MPI's own */
  CHECK(type == same);
  CHECK_EQ(MPI_Type_create_f90_real(34, 10, &type), MPI_ERR_ARG);
  CHECK_EQ(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type), MPI_ERR_ARG);
  CHECK_EQ(MPI_Type_create_f90_complex(3, 4932, &type), MPI_ERR_ARG);
  CHECK_EQ(MPI_Type_create_f90_integer(39, &type), MPI_ERR_ARG);
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL), MPI_SUCCESS);
}

static void communication(void) {
  const int rank = my_rank(), size = world_size();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Datatype type = real_kind(15, 300);
  double mine[3] = {rank + 0.5, 2.0 * rank, -1}, theirs[3] = {0, 0, 0};
  CHECK_EQ(MPI_Sendrecv(mine, 3, type, next, 0, theirs, 3, MPI_DOUBLE, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           MPI_SUCCESS);
  CHECK(theirs[0] == previous + 0.5 && theirs[1] == 2.0 * previous && theirs[2] == -1);
  CHECK_EQ(MPI_Allreduce(mine, theirs, 3, type, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK(theirs[0] == size * (size - 1) / 2 + 0.5 * size && theirs[2] == -size);
  __int128 large = (__int128)1 << 100, product = 0;
  CHECK_EQ(MPI_Allreduce(&large, &product, 1, integer_kind(30), MPI_MAX, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK(product == large);
  char packed[24];
  MPI_Aint position = 0;
  CHECK_EQ(MPI_Pack_external("external32", mine, 3, type, packed, sizeof packed, &position), MPI_SUCCESS);
  CHECK_EQ(position, 24);

  double memory[4] = {0, 0, 0, 0};
  MPI_Datatype spread = MPI_DATATYPE_NULL;
  MPI_Win win = MPI_WIN_NULL;
  CHECK_EQ(MPI_Type_vector(2, 1, 2, type, &spread), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&spread), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Accumulate(mine, 1, type, next, 1, 1, type, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(mine, 2, type, next, 0, 1, spread, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK(memory[0] == previous + 0.5 && memory[1] == previous + 0.5 && memory[2] == 2.0 * previous && memory[3] == 0);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&spread), MPI_SUCCESS);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  sizes();
  contents();
  mistakes();
  communication();
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
