/* SPDX-License-Identifier: Apache-2.0
 * Every way to send and to receive a message, with int and with MPI_Count arguments: a ring in which each rank sends to
 * the next one, eagerly and by rendezvous. */
#include "tests/mpi_shim/programs/check.h"
#include "tests/mpi_shim/programs/counts.h"

enum { kLargest = 300000, kTag = 7 };
static int rank, size, next, previous;
static int out[kLargest], in[kLargest];

static int datum(int of, int index, int round) { return of * 1000003 + index * 31 + round * 7; }
static int round_number;

static void prepare(int count) {
  ++round_number;
  for (int i = 0; i < count; ++i) out[i] = datum(rank, i, round_number);
  for (int i = 0; i < count; ++i) in[i] = -1;
}

static void check_received(const MPI_Status* status, int count) {
  Count got = -1;
  CHECK_EQ(status->MPI_SOURCE, previous);
  CHECK_EQ(status->MPI_TAG, kTag);
  CHECK_EQ(COUNTED(Get_count)(status, MPI_INT, &got), MPI_SUCCESS);
  CHECK_EQ(got, count);
  CHECK_EQ(COUNTED(Get_elements)(status, MPI_INT, &got), MPI_SUCCESS);
  CHECK_EQ(got, count);
  for (int i = 0; i < count; ++i) {
    if (in[i] != datum(previous, i, round_number)) CHECK_EQ(in[i], datum(previous, i, round_number));
  }
}

typedef int (*Sender)(const void*, Count, MPI_Datatype, int, int, MPI_Comm);
typedef int (*Starter)(const void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

/* Buffered sends find their room in the communicator's buffer. */
static void attach(int count) {
  const int bytes = count * (int)sizeof(int) + MPI_BSEND_OVERHEAD;
  void* const room = malloc((size_t)bytes);
  CHECK_EQ(COUNTED(Comm_attach_buffer)(MPI_COMM_WORLD, room, bytes), MPI_SUCCESS);
}
static void detach(int count) {
  void* room = NULL;
  Count bytes = -1;
  CHECK_EQ(COUNTED(Comm_detach_buffer)(MPI_COMM_WORLD, &room, &bytes), MPI_SUCCESS);
  CHECK_EQ(bytes, count * (int)sizeof(int) + MPI_BSEND_OVERHEAD);
  free(room);
}

static void blocking(int count) {
  const Sender senders[] = {COUNTED(Send), COUNTED(Ssend), COUNTED(Rsend), COUNTED(Bsend)};
  attach(count);
  for (size_t s = 0; s < sizeof senders / sizeof *senders; ++s) {
    MPI_Request request;
    MPI_Status status;
    prepare(count);
    CHECK_EQ(COUNTED(Irecv)(in, count, MPI_INT, previous, kTag, MPI_COMM_WORLD, &request), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs the receive */
    CHECK_EQ(senders[s](out, count, MPI_INT, next, kTag, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
    check_received(&status, count);
  }
  detach(count);
}

static void nonblocking(int count) {
  const Starter starters[] = {COUNTED(Isend), COUNTED(Issend), COUNTED(Irsend), COUNTED(Ibsend)};
  attach(count);
  for (size_t s = 0; s < sizeof starters / sizeof *starters; ++s) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    prepare(count);
    CHECK_EQ(COUNTED(Irecv)(in, count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]),
             MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(starters[s](out, count, MPI_INT, next, kTag, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
    CHECK_EQ(MPI_Waitall(2, requests, statuses), MPI_SUCCESS);
    check_received(&statuses[0], count);
    MPI_Barrier(MPI_COMM_WORLD); /* MPI_ANY_SOURCE takes nothing of the next round */
  }
  prepare(count);
  MPI_Request sent;
  MPI_Status status;
  CHECK_EQ(COUNTED(Isend)(out, count, MPI_INT, next, kTag, MPI_COMM_WORLD, &sent), MPI_SUCCESS);
  CHECK_EQ(COUNTED(Recv)(in, count, MPI_INT, previous, kTag, MPI_COMM_WORLD, &status), MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
  check_received(&status, count);
  detach(count);
}

static void persistent(int count) {
  const Starter starters[] = {COUNTED(Send_init), COUNTED(Ssend_init), COUNTED(Rsend_init), COUNTED(Bsend_init)};
  attach(count);
  for (size_t s = 0; s < sizeof starters / sizeof *starters; ++s) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    CHECK_EQ(COUNTED(Recv_init)(in, count, MPI_INT, previous, kTag, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
    CHECK_EQ(starters[s](out, count, MPI_INT, next, kTag, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
    for (int round = 0; round < 2; ++round) {
      prepare(count);
      CHECK_EQ(MPI_Start(&requests[0]), MPI_SUCCESS);
      MPI_Barrier(MPI_COMM_WORLD);
      CHECK_EQ(MPI_Startall(1, &requests[1]), MPI_SUCCESS);
      CHECK_EQ(MPI_Waitall(2, requests, statuses), MPI_SUCCESS);
      check_received(&statuses[0], count);
    }
    CHECK_EQ(MPI_Request_free(&requests[0]), MPI_SUCCESS);
    CHECK_EQ(MPI_Request_free(&requests[1]), MPI_SUCCESS);
  }
  detach(count);
}

static void exchanges(int count) {
  MPI_Status status;
  MPI_Request request;
  prepare(count);
  CHECK_EQ(
      COUNTED(Sendrecv)(out, count, MPI_INT, next, kTag, in, count, MPI_INT, previous, kTag, MPI_COMM_WORLD, &status),
      MPI_SUCCESS);
  check_received(&status, count);
  prepare(count);
  CHECK_EQ(
      COUNTED(Isendrecv)(out, count, MPI_INT, next, kTag, in, count, MPI_INT, previous, kTag, MPI_COMM_WORLD, &request),
      MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
  check_received(&status, count);
  prepare(count);
  memcpy(in, out, (size_t)count * sizeof *in);
  CHECK_EQ(COUNTED(Sendrecv_replace)(in, count, MPI_INT, next, kTag, previous, kTag, MPI_COMM_WORLD, &status),
           MPI_SUCCESS);
  check_received(&status, count);
  prepare(count);
  memcpy(in, out, (size_t)count * sizeof *in);
  CHECK_EQ(COUNTED(Isendrecv_replace)(in, count, MPI_INT, next, kTag, previous, kTag, MPI_COMM_WORLD, &request),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
  check_received(&status, count);
}

static void matched(int count) {
  for (int blocks = 0; blocks < 2; ++blocks) {
    MPI_Message message;
    MPI_Status status;
    MPI_Request sent, received;
    Count got = -1;
    int flag = 0;
    prepare(count);
    CHECK_EQ(COUNTED(Isend)(out, count, MPI_INT, next, kTag, MPI_COMM_WORLD, &sent), MPI_SUCCESS);
    if (blocks) {
      CHECK_EQ(MPI_Mprobe(previous, kTag, MPI_COMM_WORLD, &message, &status), MPI_SUCCESS);
      CHECK_EQ(COUNTED(Get_count)(&status, MPI_INT, &got), MPI_SUCCESS);
      CHECK_EQ(got, count);
      CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
      CHECK_EQ(COUNTED(Mrecv)(in, count, MPI_INT, &message, &status), MPI_SUCCESS);
    } else {
      while (!flag) CHECK_EQ(MPI_Improbe(previous, kTag, MPI_COMM_WORLD, &flag, &message, &status), MPI_SUCCESS);
      CHECK_EQ(COUNTED(Imrecv)(in, count, MPI_INT, &message, &received), MPI_SUCCESS);
      CHECK_EQ(MPI_Wait(&received, &status), MPI_SUCCESS);
    }
    CHECK(message == MPI_MESSAGE_NULL);
    check_received(&status, count);
    CHECK_EQ(MPI_Wait(&sent, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
}

/* The buffer of the process: what is attached comes back, also after messages went through it. */
static void buffer_of_the_process(void) {
  static char room[4096 + MPI_BSEND_OVERHEAD];
  void* back = NULL;
  Count bytes = -1;
  MPI_Status status;
  CHECK_EQ(COUNTED(Buffer_attach)(room, (Count)sizeof room), MPI_SUCCESS);
  prepare(100);
  CHECK_EQ(COUNTED(Bsend)(out, 100, MPI_INT, next, kTag, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(COUNTED(Recv)(in, 100, MPI_INT, previous, kTag, MPI_COMM_WORLD, &status), MPI_SUCCESS);
  check_received(&status, 100);
  CHECK_EQ(COUNTED(Buffer_detach)(&back, &bytes), MPI_SUCCESS);
  CHECK(back == room);
  CHECK_EQ(bytes, (int)sizeof room);
}

#ifdef LARGE_COUNTS
/* More elements than an int counts, of no bytes each: no step takes time that grows with their number. */
static void elements_without_bytes(void) {
  const MPI_Count many = ((MPI_Count)1 << 33) + 5;
  MPI_Datatype nothing;
  MPI_Status status;
  MPI_Count count = -1;
  MPI_Win win;
  int here = 5;
  CHECK_EQ(MPI_Type_contiguous_c(0, MPI_INT, &nothing), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&nothing), MPI_SUCCESS);
  CHECK_EQ(MPI_Sendrecv_c(&here, many, nothing, next, kTag, in, many, nothing, previous, kTag, MPI_COMM_WORLD, &status),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Get_count_c(&status, nothing, &count), MPI_SUCCESS);
  CHECK_EQ(count, 0);
  CHECK_EQ(MPI_Get_elements_c(&status, nothing, &count), MPI_SUCCESS);
  CHECK_EQ(count, 0);
  CHECK_EQ(MPI_Pack_size_c(many, nothing, MPI_COMM_WORLD, &count), MPI_SUCCESS);
  CHECK_EQ(count, 0);
  CHECK_EQ(MPI_Bcast_c(&here, many, nothing, 0, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Allgather_c(&here, many, nothing, in, many, nothing, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Alltoall_c(&here, many, nothing, in, many, nothing, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_create_c(&here, sizeof here, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put_c(in, many, nothing, next, 0, many, nothing, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
  CHECK_EQ(here, 5);
  CHECK_EQ(MPI_Type_free(&nothing), MPI_SUCCESS);
}
#endif

int main(int argc, char** argv) {
  static const int counts[] = {0, 10, kLargest};
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    blocking(counts[i]);
    nonblocking(counts[i]);
    persistent(counts[i]);
    exchanges(counts[i]);
    matched(counts[i]);
  }
  buffer_of_the_process();
#ifdef LARGE_COUNTS
  elements_without_bytes();
#endif
  MPI_Finalize();
  return 0;
}
