/* SPDX-License-Identifier: Apache-2.0
 * Point-to-point messages: sizes around every protocol change, modes, order, truncation, probing, many requests. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

static int rank, size, next, previous;

/* Every size goes around the ring, in the given mode, and arrives whole. */
static void sizes_go_around_the_ring(int mode) {
  static const int sizes[] = {0,    1,    7,     8,     63,    64,    65,    1000,   4000,   4095,    4096,
                              4097, 8192, 16384, 32768, 65535, 65536, 65537, 100000, 262144, 1000003, 4194304};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int bytes = sizes[i];
    unsigned char* out = malloc((size_t)bytes + 1);
    unsigned char* in = malloc((size_t)bytes + 1);
    for (int k = 0; k < bytes; ++k) out[k] = pattern(k, rank);
    memset(in, 0xee, (size_t)bytes + 1);
    MPI_Request request;
    MPI_Status status;
    CHECK(MPI_Irecv(in, bytes, MPI_BYTE, previous, bytes % 1000, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    if (mode == 0) CHECK(MPI_Send(out, bytes, MPI_BYTE, next, bytes % 1000, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (mode == 1) CHECK(MPI_Ssend(out, bytes, MPI_BYTE, next, bytes % 1000, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (mode == 2) {
      MPI_Request sent;
      CHECK(MPI_Isend(out, bytes, MPI_BYTE, next, bytes % 1000, MPI_COMM_WORLD, &sent) == MPI_SUCCESS);
      CHECK(MPI_Wait(&sent, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK(sent == MPI_REQUEST_NULL);
    }
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK_EQ(status.MPI_SOURCE, previous);
    CHECK_EQ(status.MPI_TAG, bytes % 1000);
    int count = -1;
    CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS);
    CHECK_EQ(count, bytes);
    for (int k = 0; k < bytes; ++k) CHECK_EQ(in[k], pattern(k, previous));
    CHECK_EQ(in[bytes], 0xee);
    free(out);
    free(in);
  }
}

/* Messages of mixed sizes between one pair keep their order, also when the receives come late. */
static void order_is_kept(void) {
  enum { kMessages = 200, kLargest = 70000 };
  static const int sizes[] = {4, 70000, 4, 5000, 4, 100, 40000};
  char* buffer = calloc(1, kLargest);
  if (size >= 2 && rank == 0) {
    MPI_Request requests[kMessages];
    char* copies[kMessages];
    for (int i = 0; i < kMessages; ++i) {
      const int bytes = sizes[i % 7];
      copies[i] = calloc(1, (size_t)bytes);
      memcpy(copies[i], &i, sizeof i);
      MPI_Isend(copies[i], bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMessages; ++i) free(copies[i]);
  } else if (rank == 1) {
    for (int i = 0; i < kMessages; ++i) {
      MPI_Status status;
      MPI_Recv(buffer, kLargest, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 0, i % 3 ? MPI_ANY_TAG : 5, MPI_COMM_WORLD,
               &status);
      int number, count;
      memcpy(&number, buffer, sizeof number);
      CHECK_EQ(number, i);
      MPI_Get_count(&status, MPI_BYTE, &count);
      CHECK_EQ(count, sizes[i % 7]);
    }
  }
  free(buffer);
}

/* Tags choose among messages that came in another order. */
static void tags_choose(void) {
  int out[10], in = -1;
  MPI_Request requests[10];
  for (int tag = 0; tag < 10; ++tag) {
    out[tag] = 100 * rank + tag;
    MPI_Isend(&out[tag], 1, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[tag]);
  }
  for (int tag = 9; tag >= 0; --tag) {
    MPI_Recv(&in, 1, MPI_INT, previous, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(in, 100 * previous + tag);
  }
  MPI_Waitall(10, requests, MPI_STATUSES_IGNORE);
}

/* A message that is longer than the receive: the right class, the first bytes, nothing behind them. */
static void truncation_is_an_error(int bytes) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  unsigned char* out = malloc((size_t)bytes);
  unsigned char* in = malloc((size_t)bytes);
  for (int k = 0; k < bytes; ++k) out[k] = pattern(k, rank);
  memset(in, 0xcc, (size_t)bytes);
  MPI_Request request;
  MPI_Isend(out, bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD, &request);
  MPI_Status status;
  const int error = MPI_Recv(in, bytes / 2, MPI_BYTE, previous, 3, MPI_COMM_WORLD, &status);
  int class = -1;
  MPI_Error_class(error, &class);
  CHECK_EQ(class, MPI_ERR_TRUNCATE);
  for (int k = 0; k < bytes / 2; ++k) CHECK_EQ(in[k], pattern(k, previous));
  for (int k = bytes / 2; k < bytes; ++k) CHECK_EQ(in[k], 0xcc);
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  free(out);
  free(in);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* More receives in flight than usual, completed in another order. */
static void many_requests(void) {
  enum { kMany = 2000 };
  int* out = malloc(kMany * sizeof *out);
  int* in = malloc(kMany * sizeof *in);
  MPI_Request* requests = malloc(2 * kMany * sizeof *requests);
  for (int i = 0; i < kMany; ++i) MPI_Irecv(&in[i], 1, MPI_INT, previous, kMany - i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < kMany; ++i) {
    out[i] = rank * kMany + i;
    MPI_Isend(&out[i], 1, MPI_INT, next, i + 1, MPI_COMM_WORLD, &requests[kMany + i]);
  }
  int done = 0;
  while (done < kMany) {
    int index;
    MPI_Waitany(2 * kMany, requests, &index, MPI_STATUS_IGNORE);
    CHECK(index >= 0 && index < 2 * kMany);
    CHECK(requests[index] == MPI_REQUEST_NULL);
    if (++done == kMany / 2) break;
  }
  MPI_Waitall(2 * kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) CHECK_EQ(in[i], previous * kMany + (kMany - i - 1));
  free(out);
  free(in);
  free(requests);
}

static void probing(void) {
  int out[3] = {1, 2, rank}, in[3] = {0};
  MPI_Request request;
  MPI_Isend(out, 3, MPI_INT, next, 77, MPI_COMM_WORLD, &request);
  MPI_Status status;
  MPI_Probe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &status);
  CHECK_EQ(status.MPI_SOURCE, previous);
  int count, flag = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQ(count, 3);
  MPI_Iprobe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
  CHECK(flag);
  CHECK_EQ(status.MPI_TAG, 77);
  MPI_Iprobe(previous, 78, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
  MPI_Message message;
  MPI_Mprobe(previous, 77, MPI_COMM_WORLD, &message, &status);
  MPI_Iprobe(previous, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
  MPI_Mrecv(in, 3, MPI_INT, &message, &status);
  CHECK(message == MPI_MESSAGE_NULL);
  CHECK_EQ(in[2], previous);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void persistent_requests(void) {
  int out = 0, in = -1;
  MPI_Request requests[2];
  MPI_Send_init(&out, 1, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(&in, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Status status;
  int flag = 0;
  MPI_Test(&requests[0], &flag, &status); /* inactive: done, with an empty status */
  CHECK(flag);
  CHECK_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  for (int turn = 0; turn < 20; ++turn) {
    out = 1000 * rank + turn;
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_EQ(in, 1000 * previous + turn);
    CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void cancelling_a_receive(void) {
  int in = 0;
  MPI_Request request;
  MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Status status;
  MPI_Wait(&request, &status);
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled);
}

static void no_process(void) {
  int value = 5;
  MPI_Status status;
  MPI_Request request;
  MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK_EQ(count, 0);
  MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  CHECK_EQ(value, 5);
}

static void exchange_in_place(void) {
  int values[1000];
  for (int i = 0; i < 1000; ++i) values[i] = rank * 1000 + i;
  MPI_Status status;
  MPI_Sendrecv_replace(values, 1000, MPI_INT, next, 1, previous, 1, MPI_COMM_WORLD, &status);
  for (int i = 0; i < 1000; ++i) CHECK_EQ(values[i], previous * 1000 + i);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  sizes_go_around_the_ring(0);
  sizes_go_around_the_ring(2);
  sizes_go_around_the_ring(1 + (size == 1)); /* a synchronous send to oneself waits for a receive: posted before */
  order_is_kept();
  tags_choose();
  truncation_is_an_error(100);
  truncation_is_an_error(10000);
  truncation_is_an_error(1000000);
  many_requests();
  probing();
  persistent_requests();
  cancelling_a_receive();
  no_process();
  exchange_in_place();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
