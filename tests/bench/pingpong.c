// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth of two MPI ranks for every power of two, for tests/bench/compare: pingpong.h over MPI.
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>

typedef MPI_Request transfer;

static int other;

static transfer start_send(const void* bytes, size_t size, int tag) {
  transfer started;
  MPI_Isend(bytes, (int)size, MPI_BYTE, other, tag, MPI_COMM_WORLD, &started);
  return started;
}
static transfer start_receive(void* bytes, size_t size, int tag) {
  transfer started;
  MPI_Irecv(bytes, (int)size, MPI_BYTE, other, tag, MPI_COMM_WORLD, &started);
  return started;
}
static void finish_all(transfer* transfers, int count) { MPI_Waitall(count, transfers, MPI_STATUSES_IGNORE); }
static void send_now(const void* bytes, size_t size, int tag) {
  MPI_Send(bytes, (int)size, MPI_BYTE, other, tag, MPI_COMM_WORLD);
}
static void receive_now(void* bytes, size_t size, int tag) {
  MPI_Recv(bytes, (int)size, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static double now(void) { return MPI_Wtime(); }

#include "pingpong.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long first = argc > 1 ? atol(argv[1]) : 1;
  const long last = argc > 2 ? atol(argv[2]) : 64L << 20;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  other = 1 - rank;
  measure(rank, first, last);
  MPI_Finalize();
  return 0;
}
