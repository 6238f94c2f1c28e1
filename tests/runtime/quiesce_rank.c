// SPDX-License-Identifier: Apache-2.0
// A rank of an MPI job that is quiesced: quiesce_rank DIRECTORY [compute | threads].
// Ranks exchange data in every way and check them, until the file DIRECTORY/stop is there; rank N counts its turns in
// DIRECTORY/turns.N.  With "compute" rank 1 first stays outside of MPI until the file DIRECTORY/go is there.  With
// "threads" a second thread exchanges messages on a communicator of its own.
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A rank that is killed frees nothing; AddressSanitizer would change its exit status for that. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "detect_leaks=0"; }

enum { kMost = 100000 }; /* ints: by rendezvous */

static const char* directory = "";
static int rank = 0;
static int size = 0;

static void check(int holds, const char* what, uint64_t turn) {
  if (holds) return;
  fprintf(stderr, "rank %d: wrong data of %s in turn %llu\n", rank, what, (unsigned long long)turn);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static const char* path_of(const char* name) {
  static _Thread_local char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static volatile uint64_t* map_turns(void) {
  char name[32];
  snprintf(name, sizeof name, "turns.%d", rank);
  const int fd = open(path_of(name), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(uint64_t)) != 0) exit(8);
  return mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static int value(int from, uint64_t turn, int i) {
  return (int)(((uint64_t)from * 7919U + turn * 31U + (uint64_t)i) % 65521U);
}

/* To the right and from the left, eager or by rendezvous. */
static void ring(MPI_Comm comm, uint64_t turn, int count) {
  static _Thread_local int out[kMost];
  static _Thread_local int in[kMost];
  const int left = (rank + size - 1) % size;
  for (int i = 0; i < count; ++i) out[i] = value(rank, turn, i);
  MPI_Request requests[2];
  MPI_Irecv(in, count, MPI_INT, left, 1, comm, &requests[0]);
  MPI_Isend(out, count, MPI_INT, (rank + 1) % size, 1, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < count; ++i) check(in[i] == value(left, turn, i), "a message", turn);
}

/* A window of two blocks: one holds what every rank has for all turns, into the other the left neighbour puts. */
static void window_turn(MPI_Win window, const int* memory, uint64_t turn) {
  static int out[1000];
  static int in[1000];
  const int right = (rank + 1) % size;
  for (int i = 0; i < 1000; ++i) out[i] = value(rank, turn, i);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
  MPI_Put(out, 1000, MPI_INT, right, 1000, 1000, MPI_INT, window);
  MPI_Get(in, 1000, MPI_INT, right, 0, 1000, MPI_INT, window);
  MPI_Win_unlock(right, window);
  for (int i = 0; i < 1000; ++i) check(in[i] == value(right, 0, i), "a get", turn);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  for (int i = 0; i < 1000; ++i) check(memory[1000 + i] == value((rank + size - 1) % size, turn, i), "a put", turn);
  MPI_Win_unlock(rank, window);
}

/* The same at all ranks. */
static int is_over(MPI_Comm comm) {
  int stop = rank == 0 && access(path_of("stop"), F_OK) == 0;
  MPI_Bcast(&stop, 1, MPI_INT, 0, comm);
  return stop;
}

static void* run_second(void* comm) {
  for (uint64_t turn = 1; !is_over(*(MPI_Comm*)comm); ++turn) ring(*(MPI_Comm*)comm, turn, turn % 2 == 0 ? kMost : 10);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  directory = argv[1];
  const int computes = argc > 2 && strcmp(argv[2], "compute") == 0;
  const int threads = argc > 2 && strcmp(argv[2], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  volatile uint64_t* const turns = map_turns();
  int* memory = NULL;
  MPI_Win window;
  MPI_Win_allocate(2000 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  for (int i = 0; i < 1000; ++i) memory[i] = value(rank, 0, i);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d has pid %d\n", rank, (int)getpid());
  fflush(stdout);
  pthread_t second;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (threads) pthread_create(&second, NULL, run_second, &comm);
  while (computes && rank == 1 && access(path_of("go"), F_OK) != 0) usleep(1000);
  for (int stop = 0; !stop; ++*turns) {
    const uint64_t turn = *turns + 1;
    ring(MPI_COMM_WORLD, turn, (int)(1 + turn % 100));
    ring(MPI_COMM_WORLD, turn, kMost);
    window_turn(window, memory, turn);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size - 1) / 2, "MPI_Allreduce", turn);
    stop = is_over(MPI_COMM_WORLD);
  }
  if (threads) pthread_join(second, NULL);
  MPI_Comm_free(&comm);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
