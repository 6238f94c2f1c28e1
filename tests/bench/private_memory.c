// SPDX-License-Identifier: Apache-2.0
// One way of a message between buffers of malloc ("malloc") or MPI_Alloc_mem ("alloc"), and what a fork costs beside
// them; run with and without memory_shareable_from.  A line "SIZE US" per power of two, the lowest of the batches'
// means; "fork MS" with 256 MiB of written malloc memory, "cycle US" of malloc, touch and free of 4 MiB, "memcpy SIZE
// US".
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kFirst = 64 << 10, kLast = 64 << 20, kBatches = 7 };

static char* take(int from_malloc, size_t size) {
  char* memory = NULL;
  if (from_malloc) {
    memory = malloc(size);
  } else {
    MPI_Alloc_mem((MPI_Aint)size, MPI_INFO_NULL, &memory);
  }
  memset(memory, 1, size);
  return memory;
}

static void give_back(int from_malloc, char* memory) {
  if (from_malloc) {
    free(memory);
  } else {
    MPI_Free_mem(memory);
  }
}

/* Both sides write what they send and read what they have received, outside of the clock. */
static double one_way(int rank, char* memory, size_t size) {
  const int rounds = size < (4U << 20) ? 20 : 4;
  double best = 1e30;
  for (int batch = 0; batch < kBatches; ++batch) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
      memset(memory, i, size);
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      if (rank == 0) {
        MPI_Send(memory, (int)size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(memory, (int)size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(memory, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(memory, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      }
      sum += MPI_Wtime() - begin;
    }
    if (batch > 0 && sum / rounds / 2 < best) best = sum / rounds / 2;  // the first one maps
  }
  return best * 1e6;
}

static double copy_alone(size_t size) {
  char* const from = malloc(size);
  char* const to = malloc(size);
  double best = 1e30;
  for (int i = 0; i < 10; ++i) {
    memset(from, i, size);
    memset(to, i + 1, size);
    const double begin = MPI_Wtime();
    memcpy(to, from, size);
    const double time = MPI_Wtime() - begin;
    if (time < best) best = time;
  }
  free(from);
  free(to);
  return best * 1e6;
}

static double fork_beside(size_t size) {
  char* const memory = take(1, size);
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const double begin = MPI_Wtime();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    const double time = MPI_Wtime() - begin;
    waitpid(child, NULL, 0);
    if (time < best) best = time;
  }
  free(memory);
  return best * 1e3;
}

static double cycle(size_t size) {
  double best = 1e30;
  for (int i = 0; i < 50; ++i) {
    const double begin = MPI_Wtime();
    char* const memory = malloc(size);
    for (size_t at = 0; at < size; at += 4096) *(volatile char*)(memory + at) = 1;
    free(memory);
    const double time = MPI_Wtime() - begin;
    if (time < best) best = time;
  }
  return best * 1e6;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int from_malloc = argc < 2 || strcmp(argv[1], "alloc") != 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (size_t size = kFirst; size <= kLast; size *= 2) {
    char* const memory = take(from_malloc, size);
    const double time = one_way(rank, memory, size);
    give_back(from_malloc, memory);
    if (rank == 0) printf("%zu %.2f\n", size, time);
  }
  if (rank == 0) {
    for (size_t size = kFirst; size <= kLast; size *= 2) printf("memcpy %zu %.2f\n", size, copy_alone(size));
    printf("fork %.3f\ncycle %.1f\n", fork_beside((size_t)256 << 20), cycle((size_t)4 << 20));
  }
  MPI_Finalize();
  return 0;
}
