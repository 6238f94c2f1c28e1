/* SPDX-License-Identifier: Apache-2.0
 * Counts and sizes of 2^31 and more in all kinds of functions.  The same few pages are mapped again and again, so that
 * the buffers take hardly any memory; what they hold repeats with those pages. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { kPeriod = 1 << 24, kTail = 12345 };
static const MPI_Count kTotal = ((MPI_Count)1 << 31) + kPeriod + kTail;

static int rank, size;

/* kTotal bytes of address space upon kPeriod bytes of memory. */
static unsigned char* map_repeatedly(void) {
  const int fd = memfd_create("repeated", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, kPeriod) == 0);
  const size_t periods = (size_t)((kTotal + kPeriod - 1) / kPeriod);
  unsigned char* base = mmap(NULL, periods * kPeriod, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(base != MAP_FAILED);
  for (size_t i = 0; i < periods; ++i) {
    /* populated: a page fault for each of two million pages takes a minute on some machines */
    const int flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
    CHECK(mmap(base + i * kPeriod, kPeriod, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED);
  }
  close(fd);
  return base;
}

static unsigned char *out, *in;

static void fill(int seed) {
  for (int i = 0; i < kPeriod; ++i) out[i] = pattern(i, seed);
  memset(in, 0, kPeriod);
}

static void check(int seed) {
  for (int i = 0; i < kPeriod; ++i) {
    if (in[i] != pattern(i, seed)) CHECK_EQ(in[i], pattern(i, seed));
  }
}

static void contiguous_bytes(void) {
  fill(1 + rank);
  MPI_Status status;
  if (rank == 0) MPI_Send_c(out, kTotal, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Message message;
    MPI_Count count = 0;
    MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK_EQ(count, kTotal);
    MPI_Mrecv_c(in, kTotal, MPI_BYTE, &message, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK_EQ(count, kTotal);
    check(1);
  }
}

/* An int counts elements that are large themselves. */
static void large_elements(void) {
  MPI_Datatype piece;
  const int pieces = (int)(kTotal / kPeriod);
  int bytes = 0, count = 0;
  MPI_Type_contiguous(kPeriod, MPI_BYTE, &piece);
  MPI_Type_commit(&piece);
  fill(2 + rank);
  if (rank == 0) MPI_Send(out, pieces, piece, 1, 2, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Status status;
    MPI_Request request;
    MPI_Irecv(in, pieces, piece, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, piece, &count);
    CHECK_EQ(count, pieces);
    check(2);
  }
  MPI_Datatype all;
  MPI_Count large_bytes = 0, lb = -1, extent = 0;
  MPI_Type_contiguous(pieces, piece, &all);
  MPI_Type_size(all, &bytes);
  CHECK_EQ(bytes, MPI_UNDEFINED);
  MPI_Type_size_c(all, &large_bytes);
  CHECK_EQ(large_bytes, (MPI_Count)pieces * kPeriod);
  MPI_Type_get_extent_c(all, &lb, &extent);
  CHECK(lb == 0 && extent == large_bytes);
  MPI_Type_free(&all);
  MPI_Type_free(&piece);
}

/* Few bytes, far apart: the type reaches over more than 2^31 bytes of memory. */
static void a_wide_type(void) {
  MPI_Datatype wide;
  MPI_Count position = 0;
  unsigned char ends[2] = {0, 0};
  MPI_Type_create_hvector_c(2, 1, kTotal - 1, MPI_BYTE, &wide);
  MPI_Type_commit(&wide);
  fill(3 + rank);
  MPI_Pack_c(out, 1, wide, ends, 2, &position, MPI_COMM_WORLD);
  CHECK(position == 2 && ends[0] == out[0] && ends[1] == out[kTotal - 1]);
  MPI_Sendrecv(out, 1, wide, (rank + 1) % size, 3, ends, 2, MPI_BYTE, (rank + size - 1) % size, 3, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  const int seed = 3 + (rank + size - 1) % size;
  CHECK(ends[0] == pattern(0, seed) && ends[1] == pattern((kTotal - 1) % kPeriod, seed));
  MPI_Type_free(&wide);
}

static void collectives(void) {
  fill(4);
  if (rank == size - 1) memcpy(in, out, kPeriod);
  MPI_Bcast_c(in, kTotal, MPI_BYTE, size - 1, MPI_COMM_WORLD);
  check(4);
  fill(5);
  MPI_Allreduce_c(out, in, kTotal, MPI_UINT8_T, MPI_MAX, MPI_COMM_WORLD);
  check(5);
  fill(6);
  const MPI_Count each = kTotal / size;
  MPI_Gather_c(out, each, MPI_BYTE, in, each, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank == 0) CHECK(in[0] != 0 && in[kPeriod - 1] != 0);
}

static void windows(void) {
  MPI_Win win;
  fill(7 + rank);
  MPI_Win_create_c(in, kTotal, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  MPI_Put_c(out, kTotal, MPI_BYTE, (rank + 1) % size, 0, kTotal, MPI_BYTE, win);
  MPI_Win_fence(0, win);
  check(7 + (rank + size - 1) % size);
  unsigned char last = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, (rank + 1) % size, 0, win);
  MPI_Get(&last, 1, MPI_BYTE, (rank + 1) % size, (MPI_Aint)(kTotal - 1), 1, MPI_BYTE, win);
  MPI_Win_unlock((rank + 1) % size, win);
  CHECK_EQ(last, pattern((kTotal - 1) % kPeriod, 7 + rank));
  MPI_Win_free(&win);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  out = map_repeatedly();
  in = map_repeatedly();
  contiguous_bytes();
  large_elements();
  a_wide_type();
  collectives();
  windows();
  MPI_Finalize();
  return 0;
}
