/* SPDX-License-Identifier: Apache-2.0
 * MPI_Reduce of a large vector needs memory for a few more of them, however many ranks there are. */
#include <sys/resource.h>

#include "tests/mpi_shim/programs/check.h"

enum { elements = 2 << 20, vector = elements * sizeof(long) };

/* AddressSanitizer keeps freed memory for a while, which would count. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "quarantine_size_mb=0"; }

static long most_memory(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss * 1024;
}

/* The lowest rank's value: associative, and another one in any other order. */
static void first(void* in, void* inout, int* length, MPI_Datatype* datatype) {
  (void)datatype;
  memcpy(inout, in, (size_t)*length * sizeof(long));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rank = my_rank(), size = world_size();
  long* const in = malloc(vector);
  long* const out = malloc(vector);
  for (long i = 0; i < elements; ++i) {
    in[i] = rank + i;
    out[i] = -1;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const long before = most_memory();
  MPI_Reduce(in, out, elements, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  const long needed = most_memory() - before;
  for (long i = 0; rank == 0 && i < elements; ++i) CHECK_EQ(out[i], size * (size - 1L) / 2 + size * i);
  if (needed > 2 * (long)vector + vector / 2) fprintf(stderr, "rank %d needed %ld bytes more\n", rank, needed);
  CHECK(needed <= 2 * (long)vector + vector / 2);
  MPI_Op op;
  MPI_Op_create(first, 0, &op);
  for (int root = 0; root < size; root += size - 1) {
    MPI_Reduce(in, out, elements, MPI_LONG, op, root, MPI_COMM_WORLD);
    for (long i = 0; rank == root && i < elements; ++i) CHECK_EQ(out[i], i);
  }
  MPI_Op_free(&op);
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
