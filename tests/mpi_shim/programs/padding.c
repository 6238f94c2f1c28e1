/* SPDX-License-Identifier: Apache-2.0
 * Operations of the program's own on types with padding, which assign whole elements: what they are given has room for
 * that.  In every reduction, over shared memory and by messages, on intra- and intercommunicators. */
#include "tests/mpi_shim/programs/check.h"

enum { padded_bytes = 4096, elements = 3, most_ranks = 8 };
typedef struct {
  long value;
  char padding[padded_bytes - sizeof(long)];
} Padded;

static int rank, size;
static MPI_Datatype padded;

static void add(void* in, void* inout, int* length, MPI_Datatype* datatype) {
  (void)datatype;
  const Padded* from = in;
  Padded* to = inout;
  for (int i = 0; i < *length; ++i) {
    Padded sum;
    memset(&sum, 0x5a, sizeof sum);
    sum.value = from[i].value + to[i].value;
    to[i] = sum;
  }
}

static void fill(Padded* values, int count) {
  for (int i = 0; i < count; ++i) values[i].value = rank + i;
}
static void check(const Padded* values, int count, int ranks, long sum_of_ranks, int first) {
  for (int i = 0; i < count; ++i) CHECK_EQ(values[i].value, sum_of_ranks + (long)ranks * (first + i));
}

static void reduce_all(int commutes) {
  MPI_Op op;
  MPI_Op_create(add, commutes, &op);
  static Padded in[elements * most_ranks], out[elements * most_ranks];
  const long ranks_sum = (long)size * (size - 1) / 2;
  for (int root = 0; root < size; ++root) {
    fill(in, elements);
    MPI_Reduce(in, out, elements, padded, op, root, MPI_COMM_WORLD);
    if (rank == root) check(out, elements, size, ranks_sum, 0);
  }
  MPI_Allreduce(in, out, elements, padded, op, MPI_COMM_WORLD);
  check(out, elements, size, ranks_sum, 0);
  MPI_Request request;
  MPI_Iallreduce(in, out, elements, padded, op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(out, elements, size, ranks_sum, 0);
  MPI_Scan(in, out, elements, padded, op, MPI_COMM_WORLD);
  check(out, elements, rank + 1, (long)rank * (rank + 1) / 2, 0);
  MPI_Exscan(in, out, elements, padded, op, MPI_COMM_WORLD);
  if (rank > 0) check(out, elements, rank, (long)rank * (rank - 1) / 2, 0);
  fill(in, elements * size);
  MPI_Reduce_scatter_block(in, out, elements, padded, op, MPI_COMM_WORLD);
  check(out, elements, size, ranks_sum, elements * rank);
  MPI_Op_free(&op);
}

static void between_groups(void) {
  if (size < 2) return;
  MPI_Comm side, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  static Padded in[elements], out[elements];
  fill(in, elements);
  MPI_Allreduce(in, out, elements, padded, op, inter);
  long others = 0, count = 0;
  for (int other = 1 - rank % 2; other < size; other += 2) {
    others += other;
    ++count;
  }
  check(out, elements, (int)count, others, 0);
  MPI_Op_free(&op);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&side);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  CHECK(size <= most_ranks);
  MPI_Type_create_resized(MPI_LONG, 0, padded_bytes, &padded);
  MPI_Type_commit(&padded);
  reduce_all(1);
  reduce_all(0);
  between_groups();
  MPI_Type_free(&padded);
  MPI_Finalize();
  return 0;
}
