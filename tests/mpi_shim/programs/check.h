/* SPDX-License-Identifier: Apache-2.0
 * Checks for MPI programs that are tests: the first one that fails says where and ends the whole job. */
#ifndef OPAL_TESTS_MPI_CHECK_H
#define OPAL_TESTS_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                             \
  do {                                                                                               \
    if (!(condition)) {                                                                              \
      int check_rank = -1;                                                                           \
      MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);                                                    \
      fprintf(stderr, "rank %d: %s:%d: not true: %s\n", check_rank, __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
    }                                                                                                \
  } while (0)

#define CHECK_EQ(actual, expected)                                                                                     \
  do {                                                                                                                 \
    const long long check_actual = (long long)(actual);                                                                \
    const long long check_expected = (long long)(expected);                                                            \
    if (check_actual != check_expected) {                                                                              \
      int check_rank = -1;                                                                                             \
      MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);                                                                      \
      fprintf(stderr, "rank %d: %s:%d: %s is %lld, not %lld\n", check_rank, __FILE__, __LINE__, #actual, check_actual, \
              check_expected);                                                                                         \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                                    \
    }                                                                                                                  \
  } while (0)

static inline int my_rank(void) {
  int rank;
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
  return rank;
}
static inline int world_size(void) {
  int size;
  CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS);
  return size;
}

/* How many ranks run where this one does, by the names of the hosts; collective. */
static inline int ranks_of_this_host(void) {
  enum { kName = MPI_MAX_PROCESSOR_NAME };
  const int size = world_size();
  char* const names = (char*)calloc((size_t)size, kName);
  char* const mine = names + (size_t)my_rank() * kName;
  int length = 0;
  int same = 0;
  CHECK(MPI_Get_processor_name(mine, &length) == MPI_SUCCESS);
  CHECK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names, kName, MPI_CHAR, MPI_COMM_WORLD) == MPI_SUCCESS);
  for (int i = 0; i < size; ++i) same += strcmp(names + (size_t)i * kName, mine) == 0;
  free(names);
  return same;
}

/* A byte that depends on its place and its writer. */
static inline unsigned char pattern(long long index, int seed) {
  return (unsigned char)(index * 131 + index / 251 + seed * 17 + 7);
}

#endif
