/* SPDX-License-Identifier: Apache-2.0
 * The job of the fault campaign: three ranks, one kind of traffic, data checked on arrival.
 * usage: campaign_program KIND [ROUNDS [abort]]
 * KIND: messages, large, strided, windows, locks, collectives, communicators or aborted.
 * All ranks exchange a last message at the end.  A rank that learns of a failure does that at once, says "rank N
 * survived" and ends without MPI_Finalize; with "abort", where every process lives and only a connection is lost, it
 * aborts the job. A rank that meets no failure says "rank N complete" after MPI_Finalize.  "aborted": messages, after
 * which rank 1 aborts the job. */
#include <unistd.h>

#include "tests/mpi_shim/programs/check.h"

enum { kSmall = 64, kLarge = 300000, kEnd = 99 };

static int rank, size, aborts, rounds = 60;

/* Every word tells sender, round and place, so that a lost, repeated or foreign message is seen. */
static long word(int from, int round, int i) { return ((long)from << 40) + ((long)round << 24) + i; }

static void wrong(const char* what, int round) {
  printf("WRONG DATA: rank %d, round %d: %s\n", rank, round, what);
  fflush(stdout);
  _exit(77);
}

/* Each pair of ranks that still reaches the other exchanges a last message; returns the number of such partners.  A
 * rank that has not met a failure yet may still wait for its messages of a round to be received. */
static int exchange_last(void) {
  static long theirs[kLarge];
  long mine = word(rank, kEnd, 0);
  int partners = 0;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Request send;
    if (MPI_Isend(&mine, 1, MPI_LONG, other, kEnd, MPI_COMM_WORLD, &send) != MPI_SUCCESS) continue;
    MPI_Status status = {.MPI_TAG = -1};
    int error = MPI_SUCCESS;
    while (error == MPI_SUCCESS && status.MPI_TAG != kEnd) {
      error = MPI_Recv(theirs, kLarge, MPI_LONG, other, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) continue;
    if (theirs[0] != word(other, kEnd, 0)) wrong("the last message", kEnd);
    ++partners;
  }
  return partners;
}

static void survive(void) {
  printf("rank %d survived with %d partners\n", rank, exchange_last());
  fflush(stdout);
  _exit(0);
}

static void check(int code) {
  if (code == MPI_SUCCESS) return;
  if (aborts) MPI_Abort(MPI_COMM_WORLD, 3);
  survive();
}

/* One message to the next rank; every `stride`th word of the memory is sent. */
static void messages(int round, int count, int stride) {
  static long out[2 * kLarge], in[kLarge];
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < count; ++i) out[i * stride] = word(rank, round, i);
  MPI_Datatype words;
  check(MPI_Type_vector(count, 1, stride, MPI_LONG, &words));
  check(MPI_Type_commit(&words));
  MPI_Request requests[2];
  check(MPI_Irecv(in, count, MPI_LONG, before, round, MPI_COMM_WORLD, &requests[0]));
  check(round % 2 == 0 ? MPI_Isend(out, 1, words, next, round, MPI_COMM_WORLD, &requests[1])
                       : MPI_Issend(out, 1, words, next, round, MPI_COMM_WORLD, &requests[1]));
  check(MPI_Type_free(&words));
  /* Of either neighbour: the other one may have met the failure, and receives nothing of this round any more. */
  for (int i = 0, which; i < 2; ++i) check(MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE));
  for (int i = 0; i < count; ++i) {
    if (in[i] != word(before, round, i)) wrong("a message", round);
  }
}

static void windows(MPI_Win window, long* memory, int round) {
  static long out[kLarge / 4], in[kLarge / 4];
  const int count = round % 4 == 0 ? kLarge / 4 : 16, next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < count; ++i) out[i] = word(rank, round, i);
  check(MPI_Win_fence(0, window));
  check(MPI_Put(out, count, MPI_LONG, next, 0, count, MPI_LONG, window));
  check(MPI_Win_fence(0, window));
  for (int i = 0; i < count; ++i) {
    if (memory[i] != word(before, round, i)) wrong("a put", round);
  }
  check(MPI_Win_fence(0, window));
  check(MPI_Get(in, count, MPI_LONG, next, 0, count, MPI_LONG, window));
  check(MPI_Win_fence(0, window));
  for (int i = 0; i < count; ++i) {
    if (in[i] != word(rank, round, i)) wrong("a get", round);
  }
}

static void locks(MPI_Win window, int round) {
  const long one = 1;
  long before = -1;
  check(MPI_Win_lock(round % 2 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, window));
  check(MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window));
  check(MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window));
  check(MPI_Win_unlock(0, window));
  if (before < round || before > (long)size * rounds) wrong("a counter", round);
}

static void collectives(int round) {
  long mine = rank + round, sum = 0, all[64] = {0};
  static long block[20000];
  check(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (sum != (long)size * round + size * (size - 1) / 2) wrong("an allreduce", round);
  for (int i = 0; i < 20000; ++i) block[i] = rank == round % size ? word(rank, round, i) : -1;
  check(MPI_Bcast(block, round % 3 == 0 ? 20000 : 8, MPI_LONG, round % size, MPI_COMM_WORLD));
  if (block[7] != word(round % size, round, 7)) wrong("a broadcast", round);
  check(MPI_Allgather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD));
  for (int i = 0; i < size; ++i) {
    if (all[i] != i + round) wrong("an allgather", round);
  }
  check(MPI_Barrier(MPI_COMM_WORLD));
}

static void communicators(int round) {
  MPI_Comm half, copy;
  int sum = 0, one = 1, members;
  check(MPI_Comm_split(MPI_COMM_WORLD, (rank + round) % 2, rank, &half));
  check(MPI_Comm_dup(half, &copy));
  check(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
  MPI_Comm_size(copy, &members);
  if (sum != members) wrong("a sum over a half", round);
  check(MPI_Comm_free(&copy));
  check(MPI_Comm_free(&half));
}

int main(int argc, char** argv) {
  const char* const kind = argc > 1 ? argv[1] : "messages";
  if (argc > 2) rounds = atoi(argv[2]);
  aborts = argc > 3;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win window = MPI_WIN_NULL;
  static long memory[kLarge / 4];
  if (kind[0] == 'w' || (kind[0] == 'l' && kind[1] == 'o')) {
    check(MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    check(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    check(MPI_Barrier(MPI_COMM_WORLD));
  }
  for (int round = 0; round < rounds; ++round) {
    if (kind[0] == 'm' || kind[0] == 'a') {
      messages(round, kSmall, 1);
    } else if (kind[0] == 's') {
      messages(round, kLarge, 2);
    } else if (kind[0] == 'w') {
      windows(window, memory, round);
    } else if (kind[0] == 'l') {
      if (kind[1] == 'o') locks(window, round);
      if (kind[1] == 'a') messages(round, kLarge, 1);
    } else if (kind[3] == 'l') {
      collectives(round);
    } else {
      communicators(round);
    }
  }
  if (kind[0] == 'a' && rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
  if (window != MPI_WIN_NULL) check(MPI_Win_free(&window));
  /* One that met no failure still answers those that did: in MPI_Finalize it would wait for them, and they for it. */
  exchange_last();
  check(MPI_Finalize());
  printf("rank %d complete\n", rank);
  return 0;
}
