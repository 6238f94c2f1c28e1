/* SPDX-License-Identifier: Apache-2.0
 * Every collective against what it is defined to be, computed here by itself: random counts and roots (the same in all
 * ranks), blocking, non-blocking and persistent, in place, and operations that do not commute. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"
#include "tests/mpi_shim/programs/counts.h"

static int rank, size;
static MPI_Comm comm;

/* The same numbers in all ranks. */
static unsigned long long seed = 88172645463325252ULL;
static int draw(int below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (int)(seed % (unsigned)below);
}

/* What rank `of` has at `index`. */
static int datum(int of, int index) { return of * 1000003 + index * 17 + (index >> 5); }

static int* filled(int count) {
  int* values = malloc(((size_t)count + 1) * sizeof *values);
  for (int i = 0; i < count; ++i) values[i] = datum(rank, i);
  return values;
}
static int* empty(int count) {
  int* values = malloc(((size_t)count + 1) * sizeof *values);
  for (int i = 0; i <= count; ++i) values[i] = -77;
  return values;
}

enum Form { kBlocking, kNonblocking, kPersistent, kForms };

/* Runs one collective in the form asked for: CALL(name, arguments) with (...) the arguments up to the communicator. */
#define RUN(form, Upper, lower, ...)                                                     \
  do {                                                                                   \
    MPI_Request request = MPI_REQUEST_NULL;                                              \
    if ((form) == kBlocking) {                                                           \
      CHECK(COUNTED(Upper)(__VA_ARGS__) == MPI_SUCCESS);                                 \
    } else if ((form) == kNonblocking) {                                                 \
      CHECK(COUNTED(I##lower)(__VA_ARGS__, &request) == MPI_SUCCESS);                    \
      CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);                       \
    } else {                                                                             \
      CHECK(COUNTED(Upper##_init)(__VA_ARGS__, MPI_INFO_NULL, &request) == MPI_SUCCESS); \
      CHECK(MPI_Start(&request) == MPI_SUCCESS);                                         \
      CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);                       \
      CHECK(MPI_Request_free(&request) == MPI_SUCCESS);                                  \
    }                                                                                    \
  } while (0)

static void bcast(enum Form form, int count, int root) {
  int* values = rank == root ? filled(count) : empty(count);
  RUN(form, Bcast, bcast, values, count, MPI_INT, root, comm);
  for (int i = 0; i < count; ++i) CHECK_EQ(values[i], datum(root, i));
  free(values);
}

static void reduce(enum Form form, int count, int root, int in_place) {
  int* in = filled(count);
  int* out = in_place && rank == root ? filled(count) : empty(count);
  RUN(form, Reduce, reduce, in_place && rank == root ? MPI_IN_PLACE : in, rank == root ? out : NULL, count, MPI_INT,
      MPI_SUM, root, comm);
  if (rank == root) {
    for (int i = 0; i < count; ++i) {
      int sum = 0;
      for (int r = 0; r < size; ++r) sum = (int)((unsigned)sum + (unsigned)datum(r, i));
      CHECK_EQ(out[i], sum);
    }
  }
  free(in);
  free(out);
}

static void allreduce(enum Form form, int count, int in_place) {
  int* in = filled(count);
  int* out = in_place ? filled(count) : empty(count);
  RUN(form, Allreduce, allreduce, in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_MAX, comm);
  for (int i = 0; i < count; ++i) {
    int most = datum(0, i);
    for (int r = 1; r < size; ++r) most = datum(r, i) > most ? datum(r, i) : most;
    CHECK_EQ(out[i], most);
  }
  free(in);
  free(out);
}

/* 2x2 matrices modulo a prime: associative, and the order of the factors matters. */
enum { kPrime = 10007 };
static void multiply(void* left, void* right, Count* length, MPI_Datatype* type) {
  (void)type;
  const int* a = left;
  int* b = right;
  for (Count i = 0; i < *length; ++i, a += 4, b += 4) {
    const int c[4] = {(a[0] * b[0] + a[1] * b[2]) % kPrime, (a[0] * b[1] + a[1] * b[3]) % kPrime,
                      (a[2] * b[0] + a[3] * b[2]) % kPrime, (a[2] * b[1] + a[3] * b[3]) % kPrime};
    memcpy(b, c, sizeof c);
  }
}
static void matrix_of(int of, int index, int* m) {
  for (int k = 0; k < 4; ++k) m[k] = (of * 31 + index * 7 + k * k + 1) % kPrime;
}
static void product_of(int first, int last, int index, int* m) {
  matrix_of(first, index, m);
  for (int r = first + 1; r <= last; ++r) {
    int next[4];
    Count one = 1;
    matrix_of(r, index, next);
    multiply(m, next, &one, NULL);
    memcpy(m, next, sizeof next);
  }
}

static void order_of_operands(enum Form form, int count, int root) {
  MPI_Datatype matrix;
  MPI_Op op;
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  COUNTED(Op_create)(multiply, 0, &op);
  int* in = malloc(((size_t)count + 1) * 4 * sizeof *in);
  int* out = malloc(((size_t)count * (size_t)size + 1) * 4 * sizeof *out);
  int want[4];
  for (int i = 0; i < count; ++i) matrix_of(rank, i, in + 4 * i);
  RUN(form, Reduce, reduce, in, out, count, matrix, op, root, comm);
  for (int i = 0; rank == root && i < count; ++i) {
    product_of(0, size - 1, i, want);
    CHECK(memcmp(out + 4 * i, want, sizeof want) == 0);
  }
  RUN(form, Allreduce, allreduce, in, out, count, matrix, op, comm);
  for (int i = 0; i < count; ++i) {
    product_of(0, size - 1, i, want);
    CHECK(memcmp(out + 4 * i, want, sizeof want) == 0);
  }
  RUN(form, Scan, scan, in, out, count, matrix, op, comm);
  for (int i = 0; i < count; ++i) {
    product_of(0, rank, i, want);
    CHECK(memcmp(out + 4 * i, want, sizeof want) == 0);
  }
  RUN(form, Exscan, exscan, in, out, count, matrix, op, comm);
  for (int i = 0; rank > 0 && i < count; ++i) {
    product_of(0, rank - 1, i, want);
    CHECK(memcmp(out + 4 * i, want, sizeof want) == 0);
  }
  int* all = malloc(((size_t)count * (size_t)size + 1) * 4 * sizeof *all);
  for (int i = 0; i < count * size; ++i) matrix_of(rank, i, all + 4 * i);
  RUN(form, Reduce_scatter_block, reduce_scatter_block, all, out, count, matrix, op, comm);
  for (int i = 0; i < count; ++i) {
    product_of(0, size - 1, rank * count + i, want);
    CHECK(memcmp(out + 4 * i, want, sizeof want) == 0);
  }
  free(in);
  free(out);
  free(all);
  MPI_Op_free(&op);
  MPI_Type_free(&matrix);
}

/* Rank 0 has no result, and so needs no memory for one. */
static void exscan(enum Form form, int count, int in_place) {
  int* in = filled(count);
  int* out = in_place ? filled(count) : empty(count);
  RUN(form, Exscan, exscan, in_place ? MPI_IN_PLACE : in, in_place || rank > 0 ? out : NULL, count, MPI_INT, MPI_SUM,
      comm);
  for (int i = 0; rank > 0 && i < count; ++i) {
    int sum = 0;
    for (int r = 0; r < rank; ++r) sum = (int)((unsigned)sum + (unsigned)datum(r, i));
    CHECK_EQ(out[i], sum);
  }
  for (int i = 0; i < count; ++i) CHECK_EQ(in[i], datum(rank, i));
  free(in);
  free(out);
}

static void add_pairs(void* left, void* right, Count* length, MPI_Datatype* type) {
  int bytes = 0;
  CHECK(MPI_Type_size(*type, &bytes) == MPI_SUCCESS);
  CHECK_EQ(bytes, 2 * sizeof(int));
  for (Count i = 0; i < 2 * *length; ++i) ((int*)right)[i] += ((const int*)left)[i];
}

/* The program frees the datatype before the operation is over; its function still gets a datatype. */
static void freed_type(void) {
  const int in[2] = {rank, 1};
  for (int persistent = 0; persistent < 2; ++persistent) {
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Request request;
    int out[2] = {-1, -1};
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    COUNTED(Op_create)(add_pairs, 1, &op);
    if (persistent) {
      COUNTED(Allreduce_init)(in, out, 1, pair, op, comm, MPI_INFO_NULL, &request);
    } else {
      COUNTED(Iallreduce)(in, out, 1, pair, op, comm, &request);
    }
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    if (persistent) MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(out[0], size * (size - 1) / 2);
    CHECK_EQ(out[1], size);
    if (persistent) MPI_Request_free(&request);
  }
}

/* No communication: the first operand is the left one. */
static void reduce_local(void) {
  enum { kCount = 5 };
  MPI_Datatype matrix;
  MPI_Op op;
  int left[4 * kCount], right[4 * kCount], want[4];
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  COUNTED(Op_create)(multiply, 0, &op);
  for (int i = 0; i < kCount; ++i) {
    matrix_of(0, i, left + 4 * i);
    matrix_of(1, i, right + 4 * i);
  }
  CHECK(COUNTED(Reduce_local)(left, right, kCount, matrix, op) == MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) {
    product_of(0, 1, i, want);
    CHECK(memcmp(right + 4 * i, want, sizeof want) == 0);
  }
  MPI_Op_free(&op);
  MPI_Type_free(&matrix);
}

static void reduce_scatter(enum Form form, int in_place) {
  Count* counts = malloc((size_t)size * sizeof *counts);
  int total = 0, first = 0;
  for (int r = 0; r < size; ++r) {
    counts[r] = draw(50);
    if (r < rank) first += counts[r];
    total += counts[r];
  }
  int* in = filled(total);
  int* out = in_place ? in : empty(counts[rank]);
  RUN(form, Reduce_scatter, reduce_scatter, in_place ? MPI_IN_PLACE : in, out, counts, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < counts[rank]; ++i) {
    int sum = 0;
    for (int r = 0; r < size; ++r) sum = (int)((unsigned)sum + (unsigned)datum(r, first + i));
    CHECK_EQ(out[i], sum);
  }
  if (out != in) free(out);
  free(in);
  free(counts);
}

static void gather_and_scatter(enum Form form, int count, int root, int in_place) {
  const int here = in_place && rank == root;
  int* in = filled(count);
  int* all = empty(count * size);
  if (here) memcpy(all + rank * count, in, (size_t)count * sizeof *in);
  RUN(form, Gather, gather, here ? MPI_IN_PLACE : in, count, MPI_INT, all, count, MPI_INT, root, comm);
  for (int r = 0; rank == root && r < size; ++r) {
    for (int i = 0; i < count; ++i) CHECK_EQ(all[r * count + i], datum(r, i));
  }
  int* back = empty(count);
  RUN(form, Scatter, scatter, all, count, MPI_INT, here ? MPI_IN_PLACE : back, count, MPI_INT, root, comm);
  for (int i = 0; !here && i < count; ++i) CHECK_EQ(back[i], datum(rank, i));
  free(in);
  free(all);
  free(back);
}

static void gatherv_and_scatterv(enum Form form, int root) {
  Count* counts = malloc((size_t)size * sizeof *counts);
  BlockPlace* places = malloc((size_t)size * sizeof *places);
  int total = 0;
  for (int r = size - 1; r >= 0; --r) { /* blocks in the opposite order, with gaps */
    counts[r] = draw(40);
    places[r] = total + 1;
    total += counts[r] + 2;
  }
  int* in = filled(counts[rank]);
  int* all = empty(total);
  RUN(form, Gatherv, gatherv, in, counts[rank], MPI_INT, all, counts, places, MPI_INT, root, comm);
  for (int r = 0; rank == root && r < size; ++r) {
    CHECK_EQ(all[places[r] - 1], -77);
    for (int i = 0; i < counts[r]; ++i) CHECK_EQ(all[places[r] + i], datum(r, i));
    CHECK_EQ(all[places[r] + counts[r]], -77);
  }
  int* back = empty(counts[rank]);
  RUN(form, Scatterv, scatterv, all, counts, places, MPI_INT, back, counts[rank], MPI_INT, root, comm);
  for (int i = 0; i < counts[rank]; ++i) CHECK_EQ(back[i], datum(rank, i));
  for (int i = 0; i < total; ++i) all[i] = -77;
  RUN(form, Allgatherv, allgatherv, in, counts[rank], MPI_INT, all, counts, places, MPI_INT, comm);
  for (int r = 0; r < size; ++r) {
    CHECK_EQ(all[places[r] - 1], -77);
    for (int i = 0; i < counts[r]; ++i) CHECK_EQ(all[places[r] + i], datum(r, i));
  }
  free(in);
  free(all);
  free(back);
  free(counts);
  free(places);
}

static void allgather(enum Form form, int count, int in_place) {
  int* in = filled(count);
  int* all = empty(count * size);
  if (in_place) memcpy(all + rank * count, in, (size_t)count * sizeof *in);
  RUN(form, Allgather, allgather, in_place ? MPI_IN_PLACE : in, count, MPI_INT, all, count, MPI_INT, comm);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < count; ++i) CHECK_EQ(all[r * count + i], datum(r, i));
  }
  free(in);
  free(all);
}

static int exchanged(int from, int to, int index) { return from * 7919 + to * 104729 + index; }

static void alltoall(enum Form form, int count, int in_place) {
  int* out = empty(count * size);
  int* in = empty(count * size);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < count; ++i) (in_place ? in : out)[r * count + i] = exchanged(rank, r, i);
  }
  RUN(form, Alltoall, alltoall, in_place ? MPI_IN_PLACE : out, count, MPI_INT, in, count, MPI_INT, comm);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < count; ++i) CHECK_EQ(in[r * count + i], exchanged(r, rank, i));
  }
  free(out);
  free(in);
}

static void alltoallv_and_w(enum Form form) {
  int* matrix = malloc((size_t)(size * size) * sizeof *matrix); /* how much from each rank to each rank */
  for (int i = 0; i < size * size; ++i) matrix[i] = draw(30);
  Count *scounts = malloc((size_t)size * sizeof *scounts), *rcounts = malloc((size_t)size * sizeof *rcounts);
  BlockPlace *sdispls = malloc((size_t)size * sizeof *sdispls), *rdispls = malloc((size_t)size * sizeof *rdispls);
  MPI_Datatype* types = malloc((size_t)size * sizeof *types);
  int stotal = 0, rtotal = 0;
  for (int r = 0; r < size; ++r) {
    scounts[r] = matrix[rank * size + r];
    rcounts[r] = matrix[r * size + rank];
    sdispls[r] = stotal;
    rdispls[r] = rtotal;
    stotal += scounts[r];
    rtotal += rcounts[r];
    types[r] = MPI_INT;
  }
  int* out = empty(stotal);
  int* in = empty(rtotal);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < scounts[r]; ++i) out[sdispls[r] + i] = exchanged(rank, r, i);
  }
  RUN(form, Alltoallv, alltoallv, out, scounts, sdispls, MPI_INT, in, rcounts, rdispls, MPI_INT, comm);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < rcounts[r]; ++i) CHECK_EQ(in[rdispls[r] + i], exchanged(r, rank, i));
  }
  for (int i = 0; i < rtotal; ++i) in[i] = -77;
  for (int r = 0; r < size; ++r) {
    sdispls[r] *= (int)sizeof(int);
    rdispls[r] *= (int)sizeof(int);
  }
  RUN(form, Alltoallw, alltoallw, out, scounts, sdispls, types, in, rcounts, rdispls, types, comm);
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < rcounts[r]; ++i) CHECK_EQ(in[rdispls[r] / (int)sizeof(int) + i], exchanged(r, rank, i));
  }
  free(matrix);
  free(scounts);
  free(sdispls);
  free(rcounts);
  free(rdispls);
  free(types);
  free(out);
  free(in);
}

/* Many non-blocking collectives of different kinds under way at once, waited for in another order. */
static void many_at_once(void) {
  enum { kCount = 20 };
  MPI_Request requests[3 * kCount];
  int in[kCount], sums[kCount], words[kCount];
  for (int i = 0; i < kCount; ++i) {
    in[i] = rank + i;
    words[i] = rank == i % size ? 1000 + i : -1;
    MPI_Iallreduce(&in[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[3 * i]);
    MPI_Ibcast(&words[i], 1, MPI_INT, i % size, comm, &requests[3 * i + 1]);
    MPI_Ibarrier(comm, &requests[3 * i + 2]);
  }
  for (int i = 3 * kCount - 1; i >= kCount; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  MPI_Waitall(kCount, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kCount; ++i) {
    CHECK_EQ(sums[i], size * (size - 1) / 2 + size * i);
    CHECK_EQ(words[i], 1000 + i);
  }
}

/* One rank waits for something else until the others have been through collectives of several rounds: it has to do its
 * part of them from inside of that. */
static void moves_while_waiting(void) {
  enum { kCount = 70001 };
  int *in = filled(kCount), *sums = empty(kCount), *all = empty(size), *word = filled(1);
  for (int lazy = 0; lazy < size; ++lazy) {
    MPI_Request requests[3];
    *word = rank == (lazy + 1) % size ? 4711 : -1;
    MPI_Iallreduce(in, sums, kCount, MPI_INT, MPI_MIN, comm, &requests[0]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm, &requests[1]);
    MPI_Ibcast(word, 1, MPI_INT, (lazy + 1) % size, comm, &requests[2]);
    for (int other = 0; rank == lazy && other < size; ++other) {
      if (other != lazy) MPI_Recv(NULL, 0, MPI_INT, other, 77, comm, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    if (rank != lazy) MPI_Send(NULL, 0, MPI_INT, lazy, 77, comm);
    for (int i = 0; i < kCount; ++i) CHECK_EQ(sums[i], datum(0, i));
    for (int r = 0; r < size; ++r) CHECK_EQ(all[r], r);
    CHECK_EQ(*word, 4711);
  }
  free(in);
  free(sums);
  free(all);
  free(word);
}

/* A column of a matrix to rows: datatypes that differ on the two sides. */
static void datatypes_in_collectives(void) {
  enum { kRows = 701 };
  MPI_Datatype column;
  MPI_Type_vector(kRows, 1, size, MPI_INT, &column);
  MPI_Datatype resized;
  MPI_Type_create_resized(column, 0, sizeof(int), &resized);
  MPI_Type_commit(&resized);
  int* matrix = empty(kRows * size);
  int* mine = filled(kRows);
  MPI_Gather(mine, kRows, MPI_INT, matrix, 1, resized, 0, comm);
  for (int i = 0; rank == 0 && i < kRows * size; ++i) CHECK_EQ(matrix[i], datum(i % size, i / size));
  MPI_Bcast(matrix, size, resized, 0, comm);
  for (int i = 0; i < kRows * size; ++i) CHECK_EQ(matrix[i], datum(i % size, i / size));
  for (int i = 0; i < kRows; ++i) mine[i] = -1;
  MPI_Scatter(matrix, 1, resized, mine, kRows, MPI_INT, 0, comm);
  for (int i = 0; i < kRows; ++i) CHECK_EQ(mine[i], datum(rank, i));
  free(matrix);
  matrix = empty(kRows * size);
  MPI_Allgather(mine, kRows, MPI_INT, matrix, 1, resized, comm);
  for (int i = 0; i < kRows * size; ++i) CHECK_EQ(matrix[i], datum(i % size, i / size));
  int* rows = empty(kRows * size);
  MPI_Alltoall(matrix, 1, resized, rows, kRows, MPI_INT, comm); /* all have the same matrix */
  for (int i = 0; i < kRows * size; ++i) CHECK_EQ(rows[i], datum(rank, i % kRows));
  for (int i = 0; i < kRows * size; ++i) matrix[i] = datum(rank, i) + i % size;
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, matrix, 1, resized, comm);
  for (int i = 0; i < kRows * size; ++i) {
    const int sent = i - i % size + rank; /* the place in the other's matrix */
    CHECK_EQ(matrix[i], datum(i % size, sent) + rank);
  }
  free(rows);
  free(matrix);
  free(mine);
  MPI_Type_free(&column);
  MPI_Type_free(&resized);
}

/* The ranks agree on the signature only: a vector, single numbers, triples.  All must divide the message alike. */
static void bcast_of_different_datatypes(enum Form form, int root) {
  enum { kNumbers = 131073, kKinds = 3 };
  MPI_Datatype types[kKinds] = {MPI_DATATYPE_NULL, MPI_INT, MPI_DATATYPE_NULL};
  const int counts[kKinds] = {1, kNumbers, kNumbers / 3}, kind = rank % kKinds, stride = kind == 0 ? 2 : 1;
  MPI_Type_vector(kNumbers, 1, 2, MPI_INT, &types[0]);
  MPI_Type_contiguous(3, MPI_INT, &types[2]);
  MPI_Type_commit(&types[0]);
  MPI_Type_commit(&types[2]);
  int* values = empty(kNumbers * stride);
  for (int i = 0; rank == root && i < kNumbers; ++i) values[i * stride] = datum(root, i);
  RUN(form, Bcast, bcast, values, counts[kind], types[kind], root, comm);
  for (int i = 0; i < kNumbers; ++i) {
    CHECK_EQ(values[i * stride], datum(root, i));
    if (stride == 2) CHECK_EQ(values[2 * i + 1], -77);
  }
  free(values);
  MPI_Type_free(&types[0]);
  MPI_Type_free(&types[2]);
}

static void everything(void) {
  static const int counts[] = {0, 1, 2, 17, 300, 5000, 70001};
  for (int form = 0; form < kForms; ++form) {
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
      const int count = counts[i];
      bcast(form, count, draw(size));
      reduce(form, count, draw(size), draw(2));
      allreduce(form, count, draw(2));
      exscan(form, count, draw(2));
      gather_and_scatter(form, count / 10, draw(size), draw(2));
      allgather(form, count / 10, draw(2));
      alltoall(form, count / 10, draw(2));
    }
    order_of_operands(form, 1 + draw(20), draw(size));
    order_of_operands(form, 0, draw(size));
    reduce_scatter(form, 0);
    reduce_scatter(form, 1);
    gatherv_and_scatterv(form, draw(size));
    alltoallv_and_w(form);
    for (int root = 0; root < 3; ++root) bcast_of_different_datatypes(form, root % size);
    MPI_Barrier(comm);
  }
  reduce_local();
  freed_type();
  many_at_once();
  moves_while_waiting();
  datatypes_in_collectives();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  comm = MPI_COMM_WORLD;
  rank = my_rank();
  size = world_size();
  everything();
  /* The same with other ranks and on fewer processes. */
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  everything();
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
