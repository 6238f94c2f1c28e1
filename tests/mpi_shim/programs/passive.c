/* SPDX-License-Identifier: Apache-2.0
 * Passive target: rank 0 stays away from MPI until it sees in its memory that the others are done with it. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { kRounds = 30 };

static void leave_core(void) {
  const struct timespec moment = {0, 20000};
  nanosleep(&moment, NULL);
}

/* Counts up the owner's counter in as many ways as there are; the last one of a round tells the owner. */
static void access_owner(MPI_Win win, MPI_Aint base) {
  const int64_t one = 1;
  int64_t before = -1;
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win), MPI_SUCCESS);
  int64_t value = -1;
  CHECK_EQ(MPI_Get(&value, 1, MPI_INT64_T, 0, base + 8, 1, MPI_INT64_T, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush(0, win), MPI_SUCCESS);
  ++value;
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT64_T, 0, base + 8, 1, MPI_INT64_T, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_unlock(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, base + 16, 1, MPI_INT64_T, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, base, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_unlock(0, win), MPI_SUCCESS);
  CHECK(before >= 0);
}

/* Rank 0 polls what the library's thread writes, as the unified memory model of windows allows: for ThreadSanitizer a
 * race. */
__attribute__((no_sanitize("thread"))) static void run(MPI_Win win, volatile int64_t* mine, MPI_Aint base) {
  const int others = world_size() - 1;
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  if (my_rank() == 0) {
    while (mine[0] != (int64_t)others * kRounds) leave_core();
    CHECK_EQ(mine[1], (int64_t)others * kRounds);
    CHECK_EQ(mine[2], (int64_t)others * kRounds);
  } else {
    for (int i = 0; i < kRounds; ++i) access_owner(win, base);
  }
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  int64_t* memory = NULL;
  MPI_Win win;
  CHECK_EQ(MPI_Win_allocate(24, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win), MPI_SUCCESS);
  memset(memory, 0, 24);
  run(win, memory, 0);

  int64_t own[3] = {0, 0, 0};
  CHECK_EQ(MPI_Win_create(own, 24, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  run(win, own, 0);

  int64_t attached[3] = {0, 0, 0};
  MPI_Aint base = 0;
  CHECK_EQ(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_attach(win, attached, 24), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_address(attached, &base), MPI_SUCCESS);
  CHECK_EQ(MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD), MPI_SUCCESS);
  run(win, attached, base);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
