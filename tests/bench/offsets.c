// SPDX-License-Identifier: Apache-2.0
// Ping-pong of two MPI ranks for several places of the buffers in their pages, for tests/bench/compare offsets.  The
// speed of some copy instructions depends on how far the target is ahead of the source (opal/core/copy.hpp).
//   offsets [LAST]      prints "NAME SIZE MEDIAN LOWEST", one way in us; NAME is send+OFFSET/recv+OFFSET, or malloc
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPage = 4096, kBatches = 30 };

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* name, int rank, char* out, char* in, int size) {
  double times[kBatches];
  const int rounds = size <= (64 << 10) ? 100 : 20;
  memset(out, 1, (size_t)size);
  memset(in, 2, (size_t)size);
  for (int batch = -2; batch < kBatches; ++batch) {  // two to warm up
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < rounds; ++i) {
      if (rank == 0) MPI_Send(out, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(in, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(out, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    if (batch >= 0) times[batch] = (MPI_Wtime() - begin) / rounds / 2 * 1e6;
  }
  qsort(times, kBatches, sizeof *times, compare_doubles);
  if (rank == 0) printf("%s %d %.3f %.3f\n", name, size, times[kBatches / 2], times[0]);
}

int main(int argc, char** argv) {
  static const int offsets[][2] = {{0, 0}, {0, 8}, {0, 16}, {0, 64}, {0, 2064}, {16, 0}};
  MPI_Init(&argc, &argv);
  const int last = argc > 1 ? atoi(argv[1]) : 1 << 20;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const size_t room = (size_t)last + 2 * kPage;
  char* out = aligned_alloc(kPage, (room + kPage) / kPage * kPage);
  char* in = aligned_alloc(kPage, (room + kPage) / kPage * kPage);
  for (int size = 4 << 10; size <= last; size *= 4) {
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; ++i) {
      char name[64];
      snprintf(name, sizeof name, "send+%d/recv+%d", offsets[i][0], offsets[i][1]);
      measure(name, rank, out + offsets[i][0], in + offsets[i][1], size);
    }
    char* given = malloc((size_t)size);
    char* taken = malloc((size_t)size);
    measure("malloc", rank, given, taken, size);
    free(taken);
    free(given);
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
