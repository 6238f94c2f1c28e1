/* SPDX-License-Identifier: Apache-2.0
 * Two ranks on one core that ask whether something has come instead of waiting for it.  What they ask for is the
 * other's to do, which cannot run meanwhile: asking in vain gives the core away, otherwise it goes on for a time slice,
 * which are tens of thousands of questions. */
#define _GNU_SOURCE
#include <sched.h>

#include "tests/mpi_shim/programs/check.h"

enum { kTurns = 200, kMostQuestions = 1000 };

static int test(MPI_Request* request) {
  int done;
  CHECK(MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  return done;
}

static int test_all(MPI_Request* request) {
  int done;
  CHECK(MPI_Testall(1, request, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  return done;
}

static int test_any(MPI_Request* request) {
  int done, index;
  CHECK(MPI_Testany(1, request, &index, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  return done;
}

static int test_some(MPI_Request* request) {
  int done, index;
  CHECK(MPI_Testsome(1, request, &done, &index, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  return done != 0;
}

static int get_status(MPI_Request* request) {
  int done;
  CHECK(MPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  return done && test(request);
}

static int probe(MPI_Request* request) {
  int done;
  (void)request;
  CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  return done;
}

static int matched_probe(MPI_Request* request) {
  int done;
  MPI_Message message;
  (void)request;
  CHECK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &done, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  if (done) CHECK(MPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  return done;
}

/* Turns in which each rank asks until the other's message has come; on average a number of questions each. */
static void play(const char* name, int (*ask)(MPI_Request*)) {
  const int other = 1 - my_rank();
  const int posts = ask != probe && ask != matched_probe;
  long questions = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (posts) CHECK(MPI_Irecv(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    if (my_rank() == turn % 2) CHECK(MPI_Send(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    while (!ask(&request)) ++questions;
    if (ask == probe) {
      CHECK(MPI_Recv(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    if (my_rank() != turn % 2) CHECK(MPI_Send(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  }
  if (questions > (long)kTurns * kMostQuestions) {
    fprintf(stderr, "%s: %ld questions in %d turns\n", name, questions, kTurns);
    CHECK(0);
  }
}

/* All on the core where rank 0 is. */
static void share_a_core(void) {
  int core = sched_getcpu();
  CHECK(MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  CHECK(sched_setaffinity(0, sizeof cores, &cores) == 0);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  CHECK_EQ(world_size(), 2);
  share_a_core();
  play("MPI_Test", test);
  play("MPI_Testall", test_all);
  play("MPI_Testany", test_any);
  play("MPI_Testsome", test_some);
  play("MPI_Request_get_status", get_status);
  play("MPI_Iprobe", probe);
  play("MPI_Improbe", matched_probe);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
