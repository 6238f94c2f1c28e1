// SPDX-License-Identifier: Apache-2.0
// Messages of 8 bytes per second from threads of one MPI process to another process, where the threads share a
// communicator and where each has its own: bursts, which the target receives only afterwards, and streams, of which as
// many threads receive.
//   mpicc -O2 -pthread tests/bench/threads.c -o threads && opalrun -n 2 --set mpi_vcis=2 ./threads [MOST_THREADS]
// One line "KIND THREADS COMMUNICATORS MEDIAN BEST" each, in million messages per second of all threads together.
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMostThreads = 16, kRounds = 51, kBurst = 1000, kStream = 20000, kWindow = 64 };

static int rank, threads;
static MPI_Comm comms[kMostThreads];
static int streams;  // or bursts
static atomic_int
    arrived;  // threads spin here: a futex would wake them one after the other, tens of microseconds apart
static double began[kMostThreads], ended[kMostThreads];

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void send_burst(MPI_Comm comm, int tag) {
  const double word = 1;
  for (int i = 0; i < kBurst; ++i) MPI_Send(&word, 1, MPI_DOUBLE, 1, tag, comm);
}

static void receive_burst(MPI_Comm comm, int tag) {
  double word;
  for (int i = 0; i < kBurst; ++i) MPI_Recv(&word, 1, MPI_DOUBLE, 0, tag, comm, MPI_STATUS_IGNORE);
}

// A window of messages at a time, answered by one, as message rates are usually measured.
static void stream(MPI_Comm comm, int tag) {
  double words[kWindow] = {0};
  MPI_Request requests[kWindow];
  for (int done = 0; done < kStream; done += kWindow) {
    for (int i = 0; i < kWindow; ++i) {
      if (rank == 0) MPI_Isend(&words[i], 1, MPI_DOUBLE, 1, tag, comm, &requests[i]);
      if (rank == 1) MPI_Irecv(&words[i], 1, MPI_DOUBLE, 0, tag, comm, &requests[i]);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) MPI_Recv(words, 1, MPI_DOUBLE, 1, tag, comm, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(words, 1, MPI_DOUBLE, 0, tag, comm);
  }
}

static void* run(void* argument) {
  const int thread = (int)(long)argument;
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < threads) sched_yield();
  began[thread] = MPI_Wtime();
  if (streams) {
    stream(comms[thread], thread);
  } else if (rank == 0) {
    send_burst(comms[thread], thread);
  } else {
    receive_burst(comms[thread], thread);
  }
  ended[thread] = MPI_Wtime();
  return NULL;
}

static double one_round(void) {
  pthread_t running[kMostThreads];
  atomic_store(&arrived, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!streams && rank == 1) {  // away, without a look at what comes
    const struct timespec nap = {0, 10000000};
    nanosleep(&nap, NULL);
  }
  for (int i = 0; i < threads; ++i) pthread_create(&running[i], NULL, run, (void*)(long)i);
  for (int i = 0; i < threads; ++i) pthread_join(running[i], NULL);
  double first = began[0], last = ended[0];
  for (int i = 1; i < threads; ++i) {
    if (began[i] < first) first = began[i];
    if (ended[i] > last) last = ended[i];
  }
  return threads * (streams ? (kStream + kWindow - 1) / kWindow * kWindow : kBurst) / (last - first) / 1e6;
}

static void measure(int own) {
  double rates[kRounds];
  for (int i = 0; i < threads; ++i) {
    if (own || i == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (!own) comms[i] = comms[0];
  }
  for (int i = -5; i < kRounds; ++i) {
    const double rate = one_round();
    if (i >= 0) rates[i] = rate;
  }
  qsort(rates, kRounds, sizeof rates[0], by_value);
  if (rank == 0) {
    printf("%s %d %d %.2f %.2f\n", streams ? "stream" : "burst", threads, own ? threads : 1, rates[kRounds / 2],
           rates[kRounds - 1]);
    fflush(stdout);
  }
  for (int i = 0; i < (own ? threads : 1); ++i) MPI_Comm_free(&comms[i]);
}

int main(int argc, char** argv) {
  int provided;
  const int most = argc > 1 ? atoi(argv[1]) : 2;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (provided != MPI_THREAD_MULTIPLE || most < 1 || most > kMostThreads) MPI_Abort(MPI_COMM_WORLD, 1);
  for (streams = 0; streams < 2; ++streams) {
    for (threads = 1; threads <= most; threads *= 2) {
      measure(0);
      if (threads > 1) measure(1);
    }
  }
  MPI_Finalize();
  return 0;
}
