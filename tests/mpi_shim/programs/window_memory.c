/* SPDX-License-Identifier: Apache-2.0
 * A window keeps little for each rank that the process does not access. */
#include <malloc.h>

#include "tests/mpi_shim/programs/check.h"

enum { windows = 100, most_per_rank = 600 /* bytes; 364 as measured with 16 ranks, 186 for each further rank */ };

static size_t bytes_allocated(void) { return mallinfo2().uordblks; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  static char memory[4096];
  MPI_Win made[windows + 1];
  /* The first one makes what all of them share. */
  CHECK_EQ(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made[windows]), MPI_SUCCESS);
  const size_t before = bytes_allocated();
  for (int i = 0; i < windows; ++i) {
    CHECK_EQ(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &made[i]), MPI_SUCCESS);
  }
  const size_t per_rank = (bytes_allocated() - before) / windows / (size_t)world_size();
  if (my_rank() == 0) printf("%zu bytes per window and rank\n", per_rank);
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) /* their malloc counts nothing */
  CHECK(per_rank > 0 && per_rank <= most_per_rank);
#endif
  for (int i = 0; i <= windows; ++i) CHECK_EQ(MPI_Win_free(&made[i]), MPI_SUCCESS);
  MPI_Finalize();
  return 0;
}
