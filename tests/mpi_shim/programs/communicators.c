/* SPDX-License-Identifier: Apache-2.0
 * Communicators, groups, cartesian grids, error handlers, datatypes in messages. */
#include <stddef.h>
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

static int rank, size;

static int rank_in(MPI_Comm comm) {
  int result;
  MPI_Comm_rank(comm, &result);
  return result;
}
static int size_of(MPI_Comm comm) {
  int result;
  MPI_Comm_size(comm, &result);
  return result;
}

static void duplicates_do_not_hear_each_other(void) {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int result;
  MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
  CHECK_EQ(result, MPI_CONGRUENT);
  MPI_Comm_compare(copy, copy, &result);
  CHECK_EQ(result, MPI_IDENT);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int one = 1, two = 2, got = 0;
  MPI_Request requests[2];
  MPI_Isend(&one, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&two, 1, MPI_INT, next, 0, copy, &requests[1]);
  MPI_Recv(&got, 1, MPI_INT, previous, 0, copy, MPI_STATUS_IGNORE);
  CHECK_EQ(got, 2);
  MPI_Recv(&got, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_EQ(got, 1);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&copy);
  CHECK(copy == MPI_COMM_NULL);
}

static void splits(void) {
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part); /* in the opposite order */
  CHECK_EQ(size_of(part), (size + 1 - rank % 2) / 2);
  int first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, part);
  CHECK(first >= rank && first % 2 == rank % 2);
  CHECK_EQ(rank_in(part), (first - rank) / 2);
  MPI_Comm_free(&part);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, 0, &part);
  CHECK((part == MPI_COMM_NULL) == (rank == 0));
  if (part != MPI_COMM_NULL) {
    CHECK_EQ(rank_in(part), rank - 1);
    MPI_Comm_free(&part);
  }
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
  CHECK_EQ(size_of(part), ranks_of_this_host());
  MPI_Comm_free(&part);
  for (int i = 0; i < 200; ++i) { /* numbers are used again */
    MPI_Comm_dup(MPI_COMM_WORLD, &part);
    MPI_Comm_free(&part);
  }
}

static void groups(void) {
  MPI_Group world, evens, odds, both, none;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int range[1][3] = {{0, size - 1, 2}};
  MPI_Group_range_incl(world, 1, range, &evens);
  MPI_Group_difference(world, evens, &odds);
  int n = -1, position = -1, result = -1;
  MPI_Group_size(evens, &n);
  CHECK_EQ(n, (size + 1) / 2);
  MPI_Group_rank(evens, &position);
  CHECK_EQ(position, rank % 2 == 0 ? rank / 2 : MPI_UNDEFINED);
  MPI_Group_union(evens, odds, &both);
  MPI_Group_compare(world, both, &result);
  CHECK_EQ(result, size <= 2 ? MPI_IDENT : MPI_SIMILAR);
  MPI_Group_intersection(evens, odds, &none);
  CHECK(none == MPI_GROUP_EMPTY);
  int here[2] = {0, MPI_PROC_NULL}, there[2];
  MPI_Group_translate_ranks(evens, 2, here, odds, there);
  CHECK_EQ(there[0], MPI_UNDEFINED);
  CHECK_EQ(there[1], MPI_PROC_NULL);
  MPI_Comm comm;
  MPI_Comm_create(MPI_COMM_WORLD, evens, &comm);
  CHECK((comm != MPI_COMM_NULL) == (rank % 2 == 0));
  if (comm != MPI_COMM_NULL) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQ(sum, n * (n - 1));
    MPI_Comm_free(&comm);
  }
  /* More ranks than there are: the array is not read. */
  const int no_ranks[1] = {0};
  MPI_Group too_many;
  int class = -1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Group_incl(world, 100000000, no_ranks, &too_many), &class);
  CHECK_EQ(class, MPI_ERR_RANK);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Group_free(&world);
  MPI_Group_free(&evens);
  MPI_Group_free(&odds);
  MPI_Group_free(&both);
  CHECK(world == MPI_GROUP_NULL);
}

static void grids(void) {
  int dims[2] = {0, 0};
  MPI_Dims_create(size, 2, dims);
  CHECK_EQ(dims[0] * dims[1], size);
  CHECK(dims[0] >= dims[1]);
  const int periods[2] = {1, 0};
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  int d[2], p[2], c[2], back = -1;
  MPI_Cart_get(grid, 2, d, p, c);
  CHECK(d[0] == dims[0] && d[1] == dims[1] && p[0] == 1 && p[1] == 0);
  CHECK_EQ(c[0] * dims[1] + c[1], rank_in(grid));
  MPI_Cart_rank(grid, c, &back);
  CHECK_EQ(back, rank_in(grid));
  int source, destination;
  MPI_Cart_shift(grid, 0, 1, &source, &destination);
  CHECK_EQ(destination, (c[0] + 1) % dims[0] * dims[1] + c[1]);
  MPI_Cart_shift(grid, 1, 1, &source, &destination);
  CHECK_EQ(destination, c[1] + 1 < dims[1] ? rank_in(grid) + 1 : MPI_PROC_NULL);
  CHECK_EQ(source, c[1] > 0 ? rank_in(grid) - 1 : MPI_PROC_NULL);
  MPI_Comm row;
  const int remain[2] = {0, 1};
  MPI_Cart_sub(grid, remain, &row);
  CHECK_EQ(size_of(row), dims[1]);
  CHECK_EQ(rank_in(row), c[1]);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
}

static int handler_calls, handler_error;
static void handler(MPI_Comm* comm, int* error, ...) {
  CHECK(*comm == MPI_COMM_WORLD);
  ++handler_calls;
  handler_error = *error;
}

static void error_handlers(void) {
  int value = 0, class = 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_RANK);
  MPI_Error_class(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_COUNT);
  MPI_Error_class(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_TAG);
  MPI_Error_class(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_TYPE);
  MPI_Error_class(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_BUFFER);
  MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD), &class);
  CHECK_EQ(class, MPI_ERR_ROOT);
  double x = 0;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* hears of what concerns no communicator */
  MPI_Error_class(MPI_Reduce_local(&x, &x, 1, MPI_DOUBLE, MPI_BAND), &class);
  CHECK_EQ(class, MPI_ERR_OP);
  MPI_Errhandler made, got;
  MPI_Comm_create_errhandler(handler, &made);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, made);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
  CHECK(got == made); /* one handler has one handle, which is to be freed as often as it was given out */
  MPI_Errhandler_free(&got);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, made);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&made);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
  CHECK(got != MPI_ERRHANDLER_NULL);
  MPI_Errhandler_free(&got);
  MPI_Send(&value, 1, MPI_INT, -9, 0, MPI_COMM_WORLD);
  CHECK_EQ(handler_calls, 1);
  CHECK_EQ(handler_error, MPI_ERR_RANK);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
  CHECK(got == MPI_ERRORS_ARE_FATAL);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
  CHECK(strstr(text, "MPI_ERR_TRUNCATE") == text && (int)strlen(text) == length);
}

/* Every other integer of a buffer to one without gaps and back, small and large. */
static void strided_messages(int count) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Datatype strided;
  MPI_Type_vector(count, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  int* spread = malloc((size_t)count * 2 * sizeof *spread);
  int* dense = malloc((size_t)count * sizeof *dense);
  for (int i = 0; i < 2 * count; ++i) spread[i] = rank + 3 * i;
  MPI_Request request;
  MPI_Irecv(dense, count, MPI_INT, previous, 0, MPI_COMM_WORLD, &request);
  MPI_Send(spread, 1, strided, next, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i) CHECK_EQ(dense[i], previous + 6 * i);
  for (int i = 0; i < 2 * count; ++i) spread[i] = -5;
  MPI_Irecv(spread, 1, strided, next, 1, MPI_COMM_WORLD, &request);
  MPI_Type_free(&strided); /* while it is in use */
  MPI_Send(dense, count, MPI_INT, previous, 1, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i) {
    CHECK_EQ(spread[2 * i], rank + 6 * i);
    CHECK_EQ(spread[2 * i + 1], -5);
  }
  free(spread);
  free(dense);
}

static void structures(void) {
  struct Particle {
    char kind;
    double place[3];
    int number;
  } out[40], in[40];
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  const int lengths[3] = {1, 3, 1};
  const MPI_Aint places[3] = {offsetof(struct Particle, kind), offsetof(struct Particle, place),
                              offsetof(struct Particle, number)};
  const MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype raw, particle;
  MPI_Type_create_struct(3, lengths, places, types, &raw);
  MPI_Type_create_resized(raw, 0, sizeof(struct Particle), &particle);
  MPI_Type_commit(&particle);
  for (int i = 0; i < 40; ++i) {
    out[i].kind = (char)('a' + i % 26);
    out[i].place[2] = rank + i / 2.0;
    out[i].number = 100 * rank + i;
  }
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Sendrecv(out, 40, particle, next, 0, in, 40, particle, previous, 0, MPI_COMM_WORLD, &status);
  for (int i = 0; i < 40; ++i) {
    CHECK(in[i].kind == 'a' + i % 26 && in[i].place[2] == previous + i / 2.0 && in[i].number == 100 * previous + i);
  }
  int count = -1, elements = -1;
  MPI_Get_count(&status, particle, &count);
  MPI_Get_elements(&status, particle, &elements);
  CHECK_EQ(count, 40);
  CHECK_EQ(elements, 200);
  char packed[4096];
  int position = 0;
  MPI_Pack(out, 10, particle, packed, sizeof packed, &position, MPI_COMM_WORLD);
  CHECK_EQ(position, 10 * (1 + 24 + 4));
  struct Particle again[10];
  memset(again, 0, sizeof again);
  position = 0;
  MPI_Unpack(packed, sizeof packed, &position, again, 10, particle, MPI_COMM_WORLD);
  CHECK(again[9].number == out[9].number && again[9].kind == out[9].kind);
  MPI_Type_free(&raw);
  MPI_Type_free(&particle);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  duplicates_do_not_hear_each_other();
  splits();
  groups();
  grids();
  error_handlers();
  strided_messages(1);
  strided_messages(100);
  strided_messages(5000);
  strided_messages(700000);
  structures();
  MPI_Finalize();
  return 0;
}
