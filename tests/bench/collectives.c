/* SPDX-License-Identifier: Apache-2.0 */
/* How long collectives take: for each of the named ones (all, when none is named) and every fourth power of two up to
 * LAST bytes per rank, batches of calls that follow a barrier.  A batch's figure is the mean of all ranks' times per
 * call; the median and the lowest of the batches are printed:
 *   NAME BYTES MEDIAN_US LOWEST_US
 * Built and run by tests/bench/compare collectives for every MPI library it compares.
 *   collectives LAST [NAME ...] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 21 };

static int rank, size;
static char *out, *in;
static int *counts, *places;

static void do_barrier(int bytes) {
  (void)bytes;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void do_bcast(int bytes) { MPI_Bcast(out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void do_reduce(int bytes) { MPI_Reduce(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); }
static void do_allreduce(int bytes) { MPI_Allreduce(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void do_gather(int bytes) { MPI_Gather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void do_allgather(int bytes) { MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD); }
static void do_scatter(int bytes) { MPI_Scatter(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); }
static void do_scan(int bytes) { MPI_Scan(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void do_reduce_scatter(int bytes) {
  MPI_Reduce_scatter_block(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void do_alltoall(int bytes) { MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD); }

static void list_blocks(int bytes) {
  for (int i = 0; i < size; ++i) counts[i] = bytes, places[i] = i * bytes;
}
static void do_gatherv(int bytes) {
  list_blocks(bytes);
  MPI_Gatherv(out, bytes, MPI_CHAR, in, counts, places, MPI_CHAR, 0, MPI_COMM_WORLD);
}
static void do_scatterv(int bytes) {
  list_blocks(bytes);
  MPI_Scatterv(out, counts, places, MPI_CHAR, in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}
static void do_allgatherv(int bytes) {
  list_blocks(bytes);
  MPI_Allgatherv(out, bytes, MPI_CHAR, in, counts, places, MPI_CHAR, MPI_COMM_WORLD);
}
static void do_alltoallv(int bytes) {
  list_blocks(bytes);
  MPI_Alltoallv(out, counts, places, MPI_CHAR, in, counts, places, MPI_CHAR, MPI_COMM_WORLD);
}

static const struct {
  const char* name;
  void (*call)(int bytes);
  int first;
} kCollectives[] = {{"barrier", do_barrier, 0},
                    {"bcast", do_bcast, 4},
                    {"reduce", do_reduce, 4},
                    {"allreduce", do_allreduce, 4},
                    {"reduce_scatter", do_reduce_scatter, 4},
                    {"scan", do_scan, 4},
                    {"gather", do_gather, 4},
                    {"scatter", do_scatter, 4},
                    {"allgather", do_allgather, 4},
                    {"alltoall", do_alltoall, 4},
                    {"gatherv", do_gatherv, 4},
                    {"scatterv", do_scatterv, 4},
                    {"allgatherv", do_allgatherv, 4},
                    {"alltoallv", do_alltoallv, 4}};

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void measure(const char* name, void (*call)(int), int bytes) {
  /* As many calls as take some milliseconds, by the slowest rank's clock. */
  for (int i = 0; i < 20; ++i) call(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < 10; ++i) call(bytes);
  double one = (MPI_Wtime() - start) / 10;
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int calls = (int)(0.004 / (one + 1e-8));
  if (calls < 3) calls = 3;
  if (calls > 2000) calls = 2000;

  double batches[kBatches];
  for (int batch = 0; batch < kBatches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < calls; ++i) call(bytes);
    const double mine = (MPI_Wtime() - start) / calls;
    MPI_Reduce(&mine, &batches[batch], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    batches[batch] /= size;
  }
  if (rank != 0) return;
  qsort(batches, kBatches, sizeof batches[0], compare_doubles);
  printf("%s %d %.3f %.3f\n", name, bytes, batches[kBatches / 2] * 1e6, batches[0] * 1e6);
  fflush(stdout);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int last = argc > 1 ? atoi(argv[1]) : 1 << 20;
  const size_t all = (size_t)last * (size_t)size + 64;
  out = malloc(all);
  in = malloc(all);
  counts = malloc((size_t)size * sizeof *counts);
  places = malloc((size_t)size * sizeof *places);
  memset(out, 0, all);
  memset(in, 0, all);
  for (size_t i = 0; i < sizeof kCollectives / sizeof kCollectives[0]; ++i) {
    int wanted = argc <= 2;
    for (int arg = 2; arg < argc; ++arg) wanted |= strcmp(argv[arg], kCollectives[i].name) == 0;
    if (!wanted) continue;
    if (kCollectives[i].first == 0) {
      measure(kCollectives[i].name, kCollectives[i].call, 0);
      continue;
    }
    for (int bytes = kCollectives[i].first; bytes <= last; bytes *= 4)
      measure(kCollectives[i].name, kCollectives[i].call, bytes);
  }
  free(out);
  free(in);
  free(counts);
  free(places);
  MPI_Finalize();
  return 0;
}
