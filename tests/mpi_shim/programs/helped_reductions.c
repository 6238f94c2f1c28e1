/* SPDX-License-Identifier: Apache-2.0
 * While rank 0 computes, a thread of the library serves the accesses to its window, and receives what belongs to a
 * reduction.  The application's operation runs only in the application's thread, inside MPI. */
#include <pthread.h>
#include <sched.h>

#include "tests/mpi_shim/programs/check.h"

enum { kRounds = 20 };
static pthread_t application;
static int inside, calls;

static void sum(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  CHECK(pthread_equal(pthread_self(), application));
  CHECK(inside);
  ++calls;
  for (int i = 0; i < *length; ++i) ((int*)inout)[i] += ((const int*)in)[i];
}

int main(int argc, char** argv) {
  int* word = NULL;
  MPI_Win window;
  MPI_Op op;
  MPI_Init(&argc, &argv);
  const int rank = my_rank(), size = world_size();
  application = pthread_self();
  MPI_Op_create(sum, 1, &op);
  MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
  *word = 0;
  MPI_Win_lock_all(0, window);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 1; round <= kRounds; ++round) {
    MPI_Request request;
    int result = 0;
    inside = 1;
    MPI_Iallreduce(&round, &result, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    if (rank != 0) { /* the put follows this rank's part of the reduction */
      if (rank == 1) MPI_Put(&round, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
      if (rank == 1) MPI_Win_flush(0, window);
    } else {
      inside = 0;
      while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < round) sched_yield(); /* rank 1 may be ahead */
      inside = 1;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(result, round * size);
  }
  CHECK(calls > 0);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Op_free(&op);
  MPI_Finalize();
  return 0;
}
