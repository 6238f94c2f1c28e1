// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth of two processes for every power of two: one line "SIZE MIN_US MEDIAN_US MB_PER_S" per size.
// Both sides write what they send and read what they receive, one byte per cache line, as programs do: a message that
// is not touched measures how well a cache keeps what never changes.
// The includer defines before how messages are sent: the type `transfer`; start_send() and start_receive(buffer,
// size, tag), which give one; finish_all(transfers, count); send_now(), receive_now(); barrier(); now() in seconds.
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

/// Rank 0 or 1 of the two; sizes from `first` to `last`.  Rank 0 prints.
static void measure(int rank, long first, long last) {
  unsigned char* out = malloc((size_t)last);
  unsigned char* in = malloc((size_t)last);
  memset(out, rank, (size_t)last);
  memset(in, rank, (size_t)last);
  volatile unsigned char sink = 0;
  transfer transfers[kWindow];
  for (long size = first; size <= last; size *= 2) {
    const int rounds = size <= 1024 ? 2000 : size <= 65536 ? 300 : size <= 1 << 20 ? 40 : size <= 8 << 20 ? 6 : 2;
    double times[kBatches];
    // Everything is touched outside of the clock; the time of a message is that of the calls.
    for (int batch = -2; batch < kBatches; ++batch) {
      double spent = 0;
      double begin = 0;
      const int touched = size > 8192;
      if (!touched) begin = now();
      for (int i = 0; i < rounds; ++i) {
        if (touched) {
          sink ^= touch(out, size, (unsigned char)i);
          barrier();
          begin = now();
        }
        if (rank == 0) send_now(out, (size_t)size, 1);
        receive_now(in, (size_t)size, 1);
        if (rank != 0) send_now(out, (size_t)size, 1);
        if (touched) spent += now() - begin;
        if (touched) sink ^= in[size - 1];
      }
      if (!touched) spent = now() - begin;
      if (batch >= 0) times[batch] = spent / rounds / 2 * 1e6;
    }
    qsort(times, kBatches, sizeof times[0], by_value);
    double best = 0;
    const int windows = size <= 4096 ? 100 : size <= 1 << 18 ? 12 : 2;
    for (int batch = 0; batch < 5; ++batch) {
      barrier();
      const double begin = now();
      for (int window = 0; window < windows; ++window) {
        for (int i = 0; i < kWindow; ++i) {
          transfers[i] = rank == 0 ? start_send(out, (size_t)size, 2) : start_receive(in, (size_t)size, 2);
        }
        finish_all(transfers, kWindow);
      }
      char token = 0;
      if (rank == 0) {
        receive_now(&token, 1, 3);
      } else {
        send_now(&token, 1, 3);
      }
      const double rate = (double)size * kWindow * windows / (now() - begin) / 1e6;
      if (rate > best) best = rate;
    }
    if (rank == 0) {
      printf("%ld %.4f %.4f %.2f\n", size, times[0], times[kBatches / 2], best);
      fflush(stdout);
    }
  }
  free(out);
  free(in);
}
