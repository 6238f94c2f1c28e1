/* SPDX-License-Identifier: Apache-2.0
 * Every access to a window and every way to make one, with int and with MPI_Count arguments: each rank works on the
 * memory of the next one, with and without requests. */
#include "tests/mpi_shim/programs/check.h"
#include "tests/mpi_shim/programs/counts.h"

enum { kCount = 1000, kUnit = sizeof(int) };
static int rank, size, next, previous;

static int datum(int of, int i) { return of * 100003 + i * 13; }

enum Flavour { kCreated, kAllocated, kShared, kFlavours };

static MPI_Win make(enum Flavour flavour, int** base) {
  const MPI_Aint bytes = kCount * kUnit;
  const WindowUnit unit = kUnit;
  MPI_Win win = MPI_WIN_NULL;
  *base = NULL;
  if (flavour == kCreated) {
    CHECK_EQ(MPI_Alloc_mem(bytes, MPI_INFO_NULL, base), MPI_SUCCESS);
    CHECK_EQ(COUNTED(Win_create)(*base, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  } else if (flavour == kAllocated) {
    CHECK_EQ(COUNTED(Win_allocate)(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win), MPI_SUCCESS);
  } else {
    CHECK_EQ(COUNTED(Win_allocate_shared)(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win), MPI_SUCCESS);
    MPI_Aint found_bytes = -1;
    WindowUnit found_unit = -1;
    int* found = NULL;
    CHECK_EQ(COUNTED(Win_shared_query)(win, rank, &found_bytes, &found_unit, &found), MPI_SUCCESS);
    CHECK(found == *base && found_bytes == bytes && found_unit == unit);
    CHECK_EQ(COUNTED(Win_shared_query)(win, next, &found_bytes, &found_unit, &found), MPI_SUCCESS);
    CHECK(found != NULL && found_bytes == bytes && found_unit == unit);
  }
  return win;
}

/* All have written their own memory before any rank reads it. */
static void begin(MPI_Win win, int* base) {
  CHECK_EQ(MPI_Win_lock_all(0, win), MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) base[i] = datum(rank, i);
  CHECK_EQ(MPI_Win_sync(win), MPI_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
}
/* What all have done is in the memory of all; another round may begin after end(). */
static void settle(MPI_Win win) {
  CHECK_EQ(MPI_Win_flush_all(win), MPI_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQ(MPI_Win_sync(win), MPI_SUCCESS);
}
static void end(MPI_Win win) {
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQ(MPI_Win_unlock_all(win), MPI_SUCCESS);
}

enum { kFirst = 100, kSome = 700 };
/* Elements kFirst and on have `expected(i)`; the others are untouched. */
static void check_mine(const int* base, int (*expected)(int)) {
  for (int i = 0; i < kCount; ++i) {
    const int touched = i >= kFirst && i < kFirst + kSome;
    const int want = touched ? expected(i) : datum(rank, i);
    if (base[i] != want) CHECK_EQ(base[i], want);
  }
}
static int put_by_previous(int i) { return datum(previous, i); }
static int summed(int i) { return datum(rank, i) + datum(previous, i); }
static int summed_twice(int i) { return datum(rank, i) + 2 * datum(previous, i); }

static void with_flushes(MPI_Win win, int* base) {
  static int in[kCount], out[kCount];
  for (int i = 0; i < kCount; ++i) out[i] = datum(rank, i);
  begin(win, base);
  CHECK_EQ(COUNTED(Put)(out + kFirst, kSome, MPI_INT, next, kFirst, kSome, MPI_INT, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush_local_all(win), MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) out[i] = -2; /* the origin's memory is its own again */
  settle(win);
  check_mine(base, put_by_previous);
  CHECK_EQ(COUNTED(Get)(in, kCount, MPI_INT, next, 0, kCount, MPI_INT, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush(next, win), MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) {
    CHECK_EQ(in[i], i >= kFirst && i < kFirst + kSome ? datum(rank, i) : datum(next, i));
  }
  end(win);

  begin(win, base);
  for (int i = 0; i < kCount; ++i) out[i] = datum(rank, i);
  CHECK_EQ(COUNTED(Accumulate)(out + kFirst, kSome, MPI_INT, next, kFirst, kSome, MPI_INT, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush_local(next, win), MPI_SUCCESS);
  settle(win);
  check_mine(base, summed);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQ(COUNTED(Get_accumulate)(out + kFirst, kSome, MPI_INT, in, kSome, MPI_INT, next, kFirst, kSome, MPI_INT,
                                   MPI_SUM, win),
           MPI_SUCCESS);
  settle(win);
  for (int i = 0; i < kSome; ++i) CHECK_EQ(in[i], datum(next, kFirst + i) + datum(rank, kFirst + i));
  check_mine(base, summed_twice);
  end(win);
}

static void with_requests(MPI_Win win, int* base) {
  static int in[kCount], out[kCount];
  MPI_Request request;
  for (int i = 0; i < kCount; ++i) out[i] = datum(rank, i);
  begin(win, base);
  CHECK_EQ(COUNTED(Rput)(out + kFirst, kSome, MPI_INT, next, kFirst, kSome, MPI_INT, win, &request), MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  settle(win);
  check_mine(base, put_by_previous);
  CHECK_EQ(COUNTED(Rget)(in, kSome, MPI_INT, next, kFirst, kSome, MPI_INT, win, &request), MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  for (int i = 0; i < kSome; ++i) CHECK_EQ(in[i], datum(rank, kFirst + i));
  end(win);

  begin(win, base);
  CHECK_EQ(COUNTED(Raccumulate)(out + kFirst, kSome, MPI_INT, next, kFirst, kSome, MPI_INT, MPI_SUM, win, &request),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  settle(win);
  check_mine(base, summed);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQ(COUNTED(Rget_accumulate)(out + kFirst, kSome, MPI_INT, in, kSome, MPI_INT, next, kFirst, kSome, MPI_INT,
                                    MPI_SUM, win, &request),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  for (int i = 0; i < kSome; ++i) CHECK_EQ(in[i], datum(next, kFirst + i) + datum(rank, kFirst + i));
  settle(win);
  check_mine(base, summed_twice);
  end(win);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  const char* const setting = getenv("OPAL_MPI_RMA_SHARE");
  const int shares = (setting == NULL || strcmp(setting, "no") != 0) && ranks_of_this_host() == size;
  for (int flavour = 0; flavour < (shares ? kFlavours : kShared); ++flavour) {
    int* base = NULL;
    MPI_Win win = make(flavour, &base);
    with_flushes(win, base);
    with_requests(win, base);
    CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
    if (flavour == kCreated) CHECK_EQ(MPI_Free_mem(base), MPI_SUCCESS);
  }
  MPI_Finalize();
  return 0;
}
