/* SPDX-License-Identifier: Apache-2.0
 * Cancelling: a send ends cancelled and leaves nothing behind, or its message is received; never both, never neither.
 * The same for receives, and for probed messages, while the other side is anywhere. */
#include <string.h>

#include "check.h"

enum { kLarge = 1 << 20, kTurns = 200 };
enum { kMessageTag = 1, kOutcomeTag = 2 };

static int rank, size, next, previous;
static unsigned char out[kLarge], in[kLarge];

static int is_cancelled(const MPI_Status* status) {
  int flag = -1;
  MPI_Test_cancelled(status, &flag);
  return flag;
}

/* Cancels and waits; whether it was cancelled. */
static int withdraw(MPI_Request* request) {
  MPI_Status status;
  MPI_Cancel(request);
  MPI_Wait(request, &status);
  CHECK(*request == MPI_REQUEST_NULL);
  return is_cancelled(&status);
}

static void start(int bytes, MPI_Request* request) {
  if (bytes < kLarge) {
    MPI_Issend(out, bytes, MPI_BYTE, next, kMessageTag, MPI_COMM_WORLD, request);
  } else {
    MPI_Isend(out, bytes, MPI_BYTE, next, kMessageTag, MPI_COMM_WORLD, request);
  }
}

static void nobody_receives_it(int bytes) {
  MPI_Request requests[3];
  for (int i = 0; i < 3; ++i) start(bytes, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD); /* they have arrived */
  CHECK(withdraw(&requests[1]));
  CHECK(withdraw(&requests[0]));
  CHECK(withdraw(&requests[2]));
  MPI_Barrier(MPI_COMM_WORLD);
  int flag = -1;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void it_was_matched(int bytes) {
  MPI_Request receive, send;
  memset(in, 0, sizeof in);
  MPI_Irecv(in, bytes, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, &receive);
  MPI_Barrier(MPI_COMM_WORLD);
  out[0] = pattern(bytes, rank);
  start(bytes, &send);
  CHECK(!withdraw(&send));
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  CHECK_EQ(in[0], pattern(bytes, previous));
}

static void a_persistent_one_can_go_again(void) {
  MPI_Request send;
  MPI_Status status;
  MPI_Ssend_init(out, 10, MPI_BYTE, next, kMessageTag, MPI_COMM_WORLD, &send);
  MPI_Start(&send);
  MPI_Cancel(&send);
  MPI_Wait(&send, &status);
  CHECK(is_cancelled(&status));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Start(&send);
  MPI_Recv(in, 10, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&send, &status);
  CHECK(!is_cancelled(&status));
  MPI_Request_free(&send);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The receiver waits in one of several ways for a message that may never come; the sender says whether it did. */
static void receivers_and_cancellers_race(int bytes) {
  int sent = 0, withdrawn = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int way = (turn + rank) % 3;
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL, said, told;
    MPI_Message message = MPI_MESSAGE_NULL;
    out[0] = pattern(turn, rank);
    in[0] = 0;
    if (way == 0) MPI_Irecv(in, bytes, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, &receive);
    start(bytes, &send);
    for (int i = 0; i < turn % 7; ++i) {
      int flag = 0;
      if (way != 0 && message == MPI_MESSAGE_NULL) {
        MPI_Improbe(previous, kMessageTag, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
      } else {
        MPI_Iprobe(MPI_ANY_SOURCE, kOutcomeTag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      }
    }
    if (message != MPI_MESSAGE_NULL) MPI_Imrecv(in, bytes, MPI_BYTE, &message, &receive);
    const int mine = withdraw(&send);
    mine ? ++withdrawn : ++sent;
    int before = -1;
    MPI_Isend(&mine, 1, MPI_INT, next, kOutcomeTag, MPI_COMM_WORLD, &said);
    MPI_Irecv(&before, 1, MPI_INT, previous, kOutcomeTag, MPI_COMM_WORLD, &told);
    MPI_Wait(&told, MPI_STATUS_IGNORE);
    MPI_Wait(&said, MPI_STATUS_IGNORE);
    if (before) {
      if (receive != MPI_REQUEST_NULL) CHECK(withdraw(&receive));
      CHECK_EQ(in[0], 0);
    } else {
      if (receive == MPI_REQUEST_NULL) {
        MPI_Recv(in, bytes, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
      }
      CHECK_EQ(in[0], pattern(turn, previous));
    }
    MPI_Barrier(MPI_COMM_WORLD); /* else the next turn's message could find this turn's receive */
  }
  CHECK_EQ(sent + withdrawn, kTurns);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A receive that is cancelled leaves the message to the next one. */
static void cancelled_receives_lose_nothing(int bytes) {
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Request send, receive;
    out[0] = pattern(turn, rank);
    in[0] = 0;
    if (turn % 2) MPI_Irecv(in, bytes, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, &receive);
    MPI_Isend(out, bytes, MPI_BYTE, next, kMessageTag, MPI_COMM_WORLD, &send);
    if (!(turn % 2)) MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, kMessageTag, MPI_COMM_WORLD, &receive);
    if (withdraw(&receive)) {
      CHECK_EQ(in[0], 0);
      MPI_Recv(in, bytes, MPI_BYTE, previous, kMessageTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CHECK_EQ(in[0], pattern(turn, previous));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  const int sizes[] = {0, 8, 3000, kLarge};
  for (int i = 0; i < 4; ++i) {
    nobody_receives_it(sizes[i]);
    if (sizes[i] != 0) it_was_matched(sizes[i]);
    if (sizes[i] != 0) receivers_and_cancellers_race(sizes[i]);
    if (sizes[i] != 0) cancelled_receives_lose_nothing(sizes[i]);
  }
  a_persistent_one_can_go_again();
  MPI_Finalize();
  return 0;
}
