/* SPDX-License-Identifier: Apache-2.0 */
/* What the first operation of each kind costs a program of two ranks or more, in the order of the lines:
 *   NAME BYTES US US      (once: both figures are the slowest rank's)
 * Built and run by tests/bench/compare first-use for every MPI library it compares. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kLarge = 1 << 20, kBarriers = 999 };

static int rank, size;
static char *out, *in;

static void exchange(int bytes) {
  if (rank == 0) {
    MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

static void barrier(int bytes) {
  (void)bytes;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void barriers(int bytes) {
  for (int i = 0; i < kBarriers; ++i) barrier(bytes);
}
static void allreduce(int bytes) { MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD); }
static void bcast(int bytes) { MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void dup_communicator(int bytes) {
  MPI_Comm copy;
  (void)bytes;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_free(&copy);
}

static void put_into(MPI_Win window, int bytes) {
  MPI_Win_fence(0, window);
  MPI_Put(out, bytes, MPI_BYTE, (rank + 1) % size, 0, bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}
static void allocated_window(int bytes) {
  char* base;
  MPI_Win window;
  MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  put_into(window, bytes);
}
static void created_window(int bytes) {
  MPI_Win window;
  MPI_Win_create(in, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  put_into(window, bytes);
}

/* The second one tells what of the first is the first use. */
static const struct {
  const char* name;
  void (*call)(int bytes);
  int bytes;
} kSteps[] = {{"first_message_there_and_back", exchange, 8},
              {"second_message_there_and_back", exchange, 8},
              {"first_large_message_there_and_back", exchange, kLarge},
              {"second_large_message_there_and_back", exchange, kLarge},
              {"first_barrier", barrier, 0},
              {"next_999_barriers", barriers, 0},
              {"first_allreduce", allreduce, 8},
              {"first_bcast", bcast, 64 << 10},
              {"first_communicator", dup_communicator, 0},
              {"second_communicator", dup_communicator, 0},
              {"first_allocated_window_with_a_put", allocated_window, kLarge},
              {"second_allocated_window_with_a_put", allocated_window, kLarge},
              {"first_created_window_with_a_put", created_window, kLarge},
              {"second_created_window_with_a_put", created_window, kLarge}};

/* The ranks, all on this host, begin each step at the same time of its clock, without an operation of MPI. */
static void come_together(void) {
  const long step = 10000000;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long from = now.tv_nsec / step;
  while (now.tv_nsec / step == from) clock_gettime(CLOCK_MONOTONIC, &now);
}

int main(int argc, char** argv) {
  enum { kCount = sizeof kSteps / sizeof kSteps[0] };
  double mine[kCount], slowest[kCount];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = malloc(kLarge);
  in = malloc(kLarge);
  memset(out, rank, kLarge);
  memset(in, rank, kLarge);
  for (int i = 0; i < kCount; ++i) {
    come_together();
    const double begin = MPI_Wtime();
    kSteps[i].call(kSteps[i].bytes);
    mine[i] = (MPI_Wtime() - begin) * 1e6;
  }
  MPI_Reduce(mine, slowest, kCount, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < kCount; ++i) {
    printf("%s %d %.2f %.2f\n", kSteps[i].name, kSteps[i].bytes, slowest[i], slowest[i]);
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
