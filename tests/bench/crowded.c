// SPDX-License-Identifier: Apache-2.0
// Ranks that may outnumber the cores, for tests/bench/compare crowded: ping-pong of all pairs at once, barrier, and a
// halo exchange in a ring with some work between.  One line "OPERATION MEDIAN_US MIN_US" each, of batches, in
// microseconds per operation of the whole job divided by the number of pairs: as much work per figure whatever the
// number of ranks, so that it would not grow if crowding cost nothing.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 9, kHalo = 8192, kWork = 4096 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static int rank, size;
static char out[2][kHalo], in[2][kHalo];
static double field[kWork];

static void ping_pong(void) {
  const int other = rank ^ 1;
  if (other >= size) return;
  if (rank % 2 == 0) {
    MPI_Send(out[0], 8, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    MPI_Recv(in[0], 8, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(in[0], 8, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out[0], 8, MPI_BYTE, other, 1, MPI_COMM_WORLD);
  }
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void halo(void) {
  const int left = (rank + size - 1) % size;
  const int right = (rank + 1) % size;
  MPI_Request requests[4];
  MPI_Irecv(in[0], kHalo, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in[1], kHalo, MPI_BYTE, right, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out[0], kHalo, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(out[1], kHalo, MPI_BYTE, left, 3, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 1; i < kWork - 1; ++i) field[i] = 0.25 * (field[i - 1] + 2 * field[i] + field[i + 1]);
}

static void measure(const char* name, void (*operation)(void), int rounds) {
  double times[kBatches];
  for (int batch = -1; batch < kBatches; ++batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < rounds; ++i) operation();
    MPI_Barrier(MPI_COMM_WORLD);
    const double spent = MPI_Wtime() - begin;
    if (batch >= 0) times[batch] = spent / rounds / (size / 2) * 1e6;
  }
  qsort(times, kBatches, sizeof times[0], by_value);
  if (rank == 0) printf("%s %.4f %.4f\n", name, times[kBatches / 2], times[0]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 200;
  memset(out, rank, sizeof out);
  field[kWork / 2] = rank;
  measure("ping-pong", ping_pong, rounds);
  measure("barrier", barrier, rounds);
  measure("halo", halo, rounds);
  MPI_Finalize();
  return 0;
}
