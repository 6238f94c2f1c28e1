/* SPDX-License-Identifier: Apache-2.0
 * Rank 0 reads more from windows of rank 1 than rank 1 may keep for it (am_pending_limit), and receives nothing until
 * rank 1 has answered.  Rank 1 also receives synchronous messages then.  No answer is lost. */
#include <signal.h>
#include <unistd.h>

#include "tests/mpi_shim/programs/check.h"

enum { kWindows = 8, kInts = 1 << 20, kSynchronous = 2000 };
static MPI_Win windows[kWindows];
static int *memory[kWindows], *copies[kWindows];

static int datum(int window, int i) { return window * 7919 + i; }

/* More blocks than a transport's get takes, each of another length: accesses to them are messages. */
static MPI_Datatype uneven_blocks(void) {
  enum { kBlocks = 8 };
  int lengths[kBlocks], places[kBlocks];
  MPI_Datatype type;
  for (int i = 0; i < kBlocks; ++i) {
    lengths[i] = kInts / kBlocks - 1 - i;
    places[i] = i * (kInts / kBlocks);
  }
  MPI_Type_indexed(kBlocks, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/* Rank 1 takes the word, which follows all requests, and says so by a signal, which needs no progress of rank 0. */
static void let_the_answers_wait(void) {
  static MPI_Request sends[kSynchronous];
  int process = (int)getpid(), signal_number = 0;
  if (my_rank() == 0) {
    for (int i = 0; i < kSynchronous; ++i) MPI_Issend(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, &sends[i]);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MPI_Send(&process, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    sigwait(&set, &signal_number);
    CHECK_EQ(signal_number, SIGUSR1);
    MPI_Waitall(kSynchronous, sends, MPI_STATUSES_IGNORE);
  } else {
    MPI_Recv(&process, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kSynchronous; ++i) MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    kill((pid_t)process, SIGUSR1);
  }
}

int main(int argc, char** argv) {
  sigset_t set; /* before there are threads */
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  MPI_Init(&argc, &argv);
  CHECK_EQ(world_size(), 2);
  MPI_Datatype type = uneven_blocks();
  for (int w = 0; w < kWindows; ++w) {
    MPI_Win_allocate(kInts * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[w],
                     &windows[w]);
    for (int i = 0; i < kInts; ++i) memory[w][i] = my_rank() == 1 ? datum(w, i) : -1;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int w = 0; w < kWindows && my_rank() == 0; ++w) { /* locked before, so that no MPI_Get waits */
    int first = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, windows[w]);
    MPI_Get(&first, 1, MPI_INT, 1, 0, 1, MPI_INT, windows[w]);
    MPI_Win_flush(1, windows[w]);
    CHECK_EQ(first, datum(w, 0));
  }
  for (int w = 0; w < kWindows && my_rank() == 0; ++w) {
    copies[w] = calloc(kInts, sizeof(int));
    CHECK_EQ(MPI_Get(copies[w], 1, type, 1, 0, 1, type, windows[w]), MPI_SUCCESS);
  }
  let_the_answers_wait();
  for (int w = 0; w < kWindows; ++w) {
    if (my_rank() == 0) CHECK_EQ(MPI_Win_unlock(1, windows[w]), MPI_SUCCESS);
    const int block = kInts / 8;
    for (int i = 0; my_rank() == 0 && i < kInts; ++i) {
      const int read = i % block < block - 1 - i / block;
      CHECK_EQ(copies[w][i], read ? datum(w, i) : 0);
    }
    free(copies[w]);
    CHECK_EQ(MPI_Win_free(&windows[w]), MPI_SUCCESS);
  }
  MPI_Type_free(&type);
  MPI_Finalize();
  return 0;
}
