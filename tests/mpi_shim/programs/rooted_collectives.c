/* SPDX-License-Identifier: Apache-2.0
 * Broadcasts, reductions to one rank, gatherv and scatterv, in which ranks may run ahead of each other: for every size
 * up to 256 KiB (powers of two, and one element less and more) runs of calls with one root and nothing in between, so
 * that slots run full and a rank that is ahead waits for the others.  Ranks drawn by seed come late, so that others
 * sleep.  A lost wake-up ends it by the launcher's time limit.  Every call's data are checked. */
#include <time.h>

#include "tests/mpi_shim/programs/check.h"

enum { kLargest = 256 * 1024 / (int)sizeof(int), kMostElements = kLargest + 1, kSeeds = 3 };

static int rank, size;
static unsigned long long state;
static int draw(int below) { /* the same numbers in all ranks */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (int)(state % (unsigned)below);
}

static int out[kMostElements], in[kMostElements];

static int element(int index, int call, int of) { return index * 7 + call * 1009 + of * 101; }

static void broadcast(int count, int root, int call) {
  for (int i = 0; i < count; ++i) out[i] = rank == root ? element(i, call, root) : -1;
  CHECK(MPI_Bcast(out, count, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
  for (int i = 0; i < count; ++i) CHECK_EQ(out[i], element(i, call, root));
}

static void reduce(int count, int root, int call) {
  for (int i = 0; i < count; ++i) out[i] = element(i, call, rank);
  CHECK(MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS);
  if (rank != root) return;
  for (int i = 0; i < count; ++i) CHECK_EQ(in[i], size * element(i, call, 0) + 101 * (size * (size - 1) / 2));
}

/* In parts of different sizes, of which each rank knows its own and the root all. */
enum { kMostRanks = 64 };
static int lengths[kMostRanks], places[kMostRanks];
static void cut(int count) {
  for (int of = 0, end = 0; of < size; ++of) {
    places[of] = end;
    lengths[of] = count / size + ((of + count) % 3 == 0 ? count % size : 0);
    end += lengths[of];
  }
}
static void gather_parts(int count, int root, int call) {
  cut(count / 2);
  for (int i = 0; i < lengths[rank]; ++i) out[i] = element(i, call, rank);
  CHECK(MPI_Gatherv(out, lengths[rank], MPI_INT, in, lengths, places, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
  for (int of = 0; rank == root && of < size; ++of) {
    for (int i = 0; i < lengths[of]; ++i) CHECK_EQ(in[places[of] + i], element(i, call, of));
  }
}
static void scatter_parts(int count, int root, int call) {
  cut(count / 2);
  for (int of = 0; rank == root && of < size; ++of) {
    for (int i = 0; i < lengths[of]; ++i) out[places[of] + i] = element(i, call, of);
  }
  CHECK(MPI_Scatterv(out, lengths, places, MPI_INT, in, lengths[rank], MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
  for (int i = 0; i < lengths[rank]; ++i) CHECK_EQ(in[i], element(i, call, rank));
}

static void come_late(void) {
  const int late = draw(2 * size); /* half of the time none */
  const int microseconds = 1 + draw(400);
  const struct timespec pause = {0, 1000L * microseconds};
  if (late == rank) nanosleep(&pause, NULL);
}

static void run(int count, int calls) {
  const int root = draw(size), what = draw(5);
  for (int call = 0; call < calls; ++call) {
    if (draw(8) == 0) come_late();
    if (what == 0 || (what == 2 && draw(2) == 0)) {
      broadcast(count, root, call);
    } else if (what == 3) {
      gather_parts(count, root, call);
    } else if (what == 4) {
      scatter_parts(count, root, call);
    } else {
      reduce(count, root, call);
    }
  }
}

/* A root that is as far ahead as it can be sleeps until the others have read; who has, and then waits for something
 * else, lets it on.  (That a root gets ahead is this library's, no program may count on it: `ahead` calls, of which the
 * others have read some after `read`.) */
static void let_root_on(int count, int ahead, int read) {
  enum { kWarm = 20 };
  MPI_Comm host;
  CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host) == MPI_SUCCESS);
  int place, ranks;
  MPI_Comm_rank(host, &place);
  MPI_Comm_size(host, &ranks);
  for (int i = 0; i < kWarm; ++i) CHECK(MPI_Barrier(host) == MPI_SUCCESS); /* they share memory now */
  const struct timespec pause = {0, 20 * 1000 * 1000};
  if (place != 0) nanosleep(&pause, NULL); /* the root is asleep by then, or needs no wake-up */
  for (int call = 0; call <= ahead; ++call) {
    for (int i = 0; i < count; ++i) out[i] = place == 0 ? element(i, call, 0) : -1;
    CHECK(MPI_Bcast(out, count, MPI_INT, 0, host) == MPI_SUCCESS);
    for (int i = 0; i < count; ++i) CHECK_EQ(out[i], element(i, call, 0));
    if (place != 0 && call + 1 == read) CHECK(MPI_Recv(in, 1, MPI_INT, 0, 5, host, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  for (int other = 1; place == 0 && other < ranks; ++other) {
    CHECK(MPI_Send(in, 1, MPI_INT, other, 5, host) == MPI_SUCCESS);
  }
  CHECK(MPI_Comm_free(&host) == MPI_SUCCESS);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  rank = my_rank();
  size = world_size();
  for (int seed = 1; seed <= kSeeds; ++seed) {
    state = 0x9e3779b97f4a7c15ULL * (unsigned)seed;
    for (int count = 1; count <= kLargest; count *= 2) {
      for (int around = -1; around <= 1; ++around) {
        if (count + around > 0) run(count + around, count <= 4096 ? 60 : 12);
      }
    }
  }
  for (int turn = 0; turn < 5; ++turn) {
    let_root_on(1, 16, 5);   /* through cells */
    let_root_on(1000, 4, 2); /* through slots */
  }
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
