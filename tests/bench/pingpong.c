// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth of two MPI ranks for every power of two, for tests/bench/compare: one line
// "SIZE MIN_US MEDIAN_US MB_PER_S" per size.  Both sides write what they send and read what they receive, one byte per
// cache line, as programs do: a message that nobody touches measures how well a cache keeps what never changes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWindow = 16, kBatches = 11 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static unsigned char touch(unsigned char* bytes, long size, unsigned char value) {
  unsigned char sum = 0;
  for (long i = 0; i < size; i += 64) {
    sum += bytes[i];
    bytes[i] = (unsigned char)(value + i / 64);
  }
  return sum;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long first = argc > 1 ? atol(argv[1]) : 1;
  const long last = argc > 2 ? atol(argv[2]) : 64L << 20;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = 1 - rank;
  unsigned char* out = malloc((size_t)last);
  unsigned char* in = malloc((size_t)last);
  memset(out, rank, (size_t)last);
  memset(in, rank, (size_t)last);
  volatile unsigned char sink = 0;
  MPI_Request requests[kWindow];
  for (long size = first; size <= last; size *= 2) {
    const int rounds = size <= 1024 ? 2000 : size <= 65536 ? 300 : size <= 1 << 20 ? 40 : size <= 8 << 20 ? 6 : 2;
    double times[kBatches];
    // Everything is touched outside of the clock; the time of a message is that of the calls.
    for (int batch = -2; batch < kBatches; ++batch) {
      double spent = 0;
      double begin = 0;
      const int touched = size > 8192;
      if (!touched) begin = MPI_Wtime();
      for (int i = 0; i < rounds; ++i) {
        if (rank == 0) {
          if (touched) {
            sink ^= touch(out, size, (unsigned char)i);
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
          }
          MPI_Send(out, (int)size, MPI_BYTE, other, 1, MPI_COMM_WORLD);
          MPI_Recv(in, (int)size, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          if (touched) spent += MPI_Wtime() - begin;
        } else {
          if (touched) {
            sink ^= touch(out, size, (unsigned char)i);
            MPI_Barrier(MPI_COMM_WORLD);
          }
          MPI_Recv(in, (int)size, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          MPI_Send(out, (int)size, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        }
        if (touched) sink ^= in[size - 1];
      }
      if (!touched) spent = MPI_Wtime() - begin;
      if (batch >= 0) times[batch] = spent / rounds / 2 * 1e6;
    }
    qsort(times, kBatches, sizeof times[0], by_value);
    double best = 0;
    const int windows = size <= 4096 ? 100 : size <= 1 << 18 ? 12 : 2;
    for (int batch = 0; batch < 5; ++batch) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      for (int window = 0; window < windows; ++window) {
        for (int i = 0; i < kWindow; ++i) {
          if (rank == 0) {
            MPI_Isend(out, (int)size, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[i]);
          } else {
            MPI_Irecv(in, (int)size, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[i]);
          }
        }
        MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
      }
      char token = 0;
      if (rank == 0) {
        MPI_Recv(&token, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Send(&token, 1, MPI_BYTE, other, 3, MPI_COMM_WORLD);
      }
      const double rate = (double)size * kWindow * windows / (MPI_Wtime() - begin) / 1e6;
      if (rate > best) best = rate;
    }
    if (rank == 0) {
      printf("%ld %.4f %.4f %.2f\n", size, times[0], times[kBatches / 2], best);
      fflush(stdout);
    }
  }
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
