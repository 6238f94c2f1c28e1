/* SPDX-License-Identifier: Apache-2.0
 * A million unexpected messages: the memory that they take at their target is bounded, all of them
 * arrive, in order, and none that comes later is lost behind them. */
#include <string.h>
#include <sys/resource.h>

#include "opal/core/sanitizer.hpp"
#include "tests/mpi_shim/programs/check.h"

/* Fewer under a sanitizer, which takes long; then the memory stays below the bound in any case. */
enum { messages = OPAL_ADDRESS_SANITIZER ? 200000 : 1000000, bytes = 64, waits_after = 1000 };

static long resident_kilobytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* Blocking sends: the target computes (it does not receive) until the sender has been held up. */
static void blocking(int rank, int size) {
  char message[bytes];
  memset(message, 0, sizeof message);
  if (rank != 0) {
    for (int i = 0; i < messages / (size - 1); ++i) {
      memcpy(message, &i, sizeof i);
      MPI_Send(message, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return;
  }
  const long before = resident_kilobytes();
  for (int i = 0; i < waits_after; ++i) { /* lets in what comes, without receiving it */
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK_EQ(flag, 0);
  }
  int expected[64] = {0};
  for (int i = 0; i < messages / (size - 1) * (size - 1); ++i) {
    MPI_Status status;
    int number = -1;
    MPI_Recv(message, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    memcpy(&number, message, sizeof number);
    CHECK_EQ(number, expected[status.MPI_SOURCE]++);
    if (i % 1000 == 0) { /* falls behind again and again */
      int flag;
      for (int k = 0; k < 20; ++k) MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
  }
  /* 4 MiB for each sender by default, and as much again for what the allocator and the transport add. */
  const long grown = resident_kilobytes() - before;
  if (grown > (size - 1) * 8L * 1024 + 24 * 1024) {
    fprintf(stderr, "the flood took %ld KiB of memory\n", grown);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/* Non-blocking sends: the message that the target wants is the last one, behind more than the budget. */
static void behind_the_flood(int rank) {
  enum { ahead = 40000 };
  static MPI_Request requests[ahead];
  static char message[bytes];
  int number = 0;
  if (rank == 1) {
    for (int i = 0; i < ahead; ++i) MPI_Isend(message, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    number = 42;
    MPI_Send(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Waitall(ahead, requests, MPI_STATUSES_IGNORE);
  } else if (rank == 0) {
    MPI_Recv(&number, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(number, 42);
    for (int i = 0; i < ahead; ++i) MPI_Recv(message, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rank = my_rank(), size = world_size();
  CHECK(size >= 2 && size <= 64);
  blocking(rank, size);
  MPI_Barrier(MPI_COMM_WORLD); /* rank 0 receives from any source */
  behind_the_flood(rank);
  MPI_Finalize();
  return 0;
}
