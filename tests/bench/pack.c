/* SPDX-License-Identifier: Apache-2.0
 * How fast datatypes are packed and unpacked, beside memcpy of the same bytes in the same run: the smallest of many
 * times, so that others on the machine count as little as possible. One process; prints a table. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRepeats = 40 };

static double smallest(double so_far, double start) {
  const double taken = MPI_Wtime() - start;
  return taken < so_far ? taken : so_far;
}

/* Packs `count` of `type`; frees the type. */
static void measure(const char* name, MPI_Datatype type, int count) {
  MPI_Aint lb, extent;
  int bytes = 0;
  MPI_Type_commit(&type);
  MPI_Type_get_extent(type, &lb, &extent);
  MPI_Pack_size(count, type, MPI_COMM_WORLD, &bytes);
  const size_t span = (size_t)extent * (size_t)count;
  char* memory = malloc(span);
  char* packed = malloc((size_t)bytes);
  char* copy = malloc((size_t)bytes);
  if (memory == NULL || packed == NULL || copy == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < span; ++i) memory[i] = (char)(i * 7 + i / 256);
  memset(packed, 1, (size_t)bytes);
  double pack = 1e9, unpack = 1e9, plain = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    int position = 0;
    double start = MPI_Wtime();
    MPI_Pack(memory, count, type, packed, bytes, &position, MPI_COMM_WORLD);
    pack = smallest(pack, start);
    if (position != bytes) MPI_Abort(MPI_COMM_WORLD, 2);
    position = 0;
    start = MPI_Wtime();
    MPI_Unpack(packed, bytes, &position, memory, count, type, MPI_COMM_WORLD);
    unpack = smallest(unpack, start);
    start = MPI_Wtime();
    memcpy(copy, packed, (size_t)bytes);
    plain = smallest(plain, start);
    if (copy[bytes - 1] != packed[bytes - 1]) MPI_Abort(MPI_COMM_WORLD, 3); /* and the copy is used */
  }
  printf("| %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f |\n", name, bytes, bytes / plain / 1e9, bytes / pack / 1e9,
         bytes / unpack / 1e9, plain / pack, plain / unpack);
  fflush(stdout);
  free(memory);
  free(packed);
  free(copy);
  MPI_Type_free(&type);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  printf("| datatype | bytes | memcpy GB/s | pack GB/s | unpack GB/s | pack / memcpy | unpack / memcpy |\n");
  printf("|---|---:|---:|---:|---:|---:|---:|\n");
  for (int large = 0; large < 2; ++large) {
    const int n = large ? 1 << 20 : 1 << 12; /* doubles: 8 MiB and 32 KiB of data */
    MPI_Datatype type;
    MPI_Type_contiguous(n, MPI_DOUBLE, &type);
    measure("contiguous", type, 1);
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &type);
    measure("every second double", type, 1);
    MPI_Type_vector(n, 1, 16, MPI_DOUBLE, &type);
    measure("a column of 16", type, 1);
    MPI_Type_vector(n / 4, 4, 8, MPI_DOUBLE, &type);
    measure("4 doubles of 8", type, 1);
    MPI_Type_vector(n / 64, 64, 128, MPI_DOUBLE, &type);
    measure("64 doubles of 128", type, 1);
    MPI_Type_vector(2 * n, 1, 2, MPI_INT, &type);
    measure("every second int", type, 1);
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 8};
    const MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(2, lengths, places, parts, &type);
    measure("struct of int and double", type, n * 2 / 3);
    const int edge = large ? 101 : 16;
    const int sizes[3] = {edge, edge, edge}, inner[3] = {edge - 2, edge - 2, edge - 2}, starts[3] = {1, 1, 1};
    MPI_Type_create_subarray(3, sizes, inner, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    measure("inside of a cube", type, 1);
    const int blocks = n / 3;
    int* displacements = malloc(sizeof(int) * (size_t)blocks);
    for (int i = 0; i < blocks; ++i) displacements[i] = 5 * i + i % 2;
    MPI_Type_create_indexed_block(blocks, 3, displacements, MPI_DOUBLE, &type);
    measure("3 doubles at irregular places", type, 1);
    free(displacements);
  }
  MPI_Finalize();
  return 0;
}
