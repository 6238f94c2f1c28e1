/* SPDX-License-Identifier: Apache-2.0
 * Intercommunicators: making, asking, messages, every collective, dup, split, create, merge. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

enum { most_ranks = 16 };
static int rank, size;
static MPI_Comm side;  /* the even or the odd ranks of the world */
static MPI_Comm inter; /* even ranks against odd ones */
static int own_rank, own_size, other_size;

/* The world's rank of rank `of` on the other side. */
static int other(int of) { return 2 * of + 1 - rank % 2; }

static void make(void) {
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - rank % 2, 77, &inter);
  MPI_Comm_rank(side, &own_rank);
  MPI_Comm_size(side, &own_size);
  other_size = size - own_size;
}

static void asking(void) {
  int flag = -1, n = -1;
  MPI_Comm_test_inter(inter, &flag);
  CHECK_EQ(flag, 1);
  MPI_Comm_test_inter(side, &flag);
  CHECK_EQ(flag, 0);
  MPI_Comm_size(inter, &n);
  CHECK_EQ(n, own_size);
  MPI_Comm_rank(inter, &n);
  CHECK_EQ(n, own_rank);
  MPI_Comm_remote_size(inter, &n);
  CHECK_EQ(n, other_size);
  MPI_Group group, world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_remote_group(inter, &group);
  for (int i = 0; i < other_size; ++i) {
    MPI_Group_translate_ranks(group, 1, &i, world, &n);
    CHECK_EQ(n, other(i));
  }
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  MPI_Comm copy;
  MPI_Comm_dup(inter, &copy);
  MPI_Comm_compare(inter, copy, &n);
  CHECK_EQ(n, MPI_CONGRUENT);
  MPI_Comm_compare(inter, side, &n);
  CHECK_EQ(n, MPI_UNEQUAL);
  MPI_Comm_free(&copy);
}

static void messages(void) {
  /* Each rank to each rank of the other side, received from any source. */
  int sum = 0, expected = 0;
  MPI_Request requests[most_ranks];
  for (int i = 0; i < other_size; ++i) MPI_Isend(&rank, 1, MPI_INT, i, 5, inter, &requests[i]);
  for (int i = 0; i < other_size; ++i) {
    int got = -1;
    MPI_Status status;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, &status);
    CHECK_EQ(got, other(status.MPI_SOURCE));
    sum += got;
    expected += other(i);
  }
  CHECK_EQ(sum, expected);
  MPI_Waitall(other_size, requests, MPI_STATUSES_IGNORE);
}

/* Each rank of one side is the root once, then each of the other. */
static void rooted(MPI_Comm comm) {
  for (int way = 0; way < 2; ++way) {
    const int sends = rank % 2 == way;
    const int roots = sends ? own_size : other_size;
    for (int root = 0; root < roots; ++root) {
      const int here = !sends ? root : own_rank == root ? MPI_ROOT : MPI_PROC_NULL;
      const int root_in_world = 2 * root + way;
      int value = here == MPI_ROOT ? 1000 + root_in_world : -1;
      MPI_Bcast(&value, 1, MPI_INT, here, comm);
      if (!sends) CHECK_EQ(value, 1000 + root_in_world);

      int all[most_ranks] = {0};
      int mine = rank + 3;
      MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, here, comm);
      for (int i = 0; here == MPI_ROOT && i < other_size; ++i) CHECK_EQ(all[i], other(i) + 3);

      for (int i = 0; i < most_ranks; ++i) all[i] = root_in_world * 100 + i;
      mine = -1;
      MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, here, comm);
      if (!sends) CHECK_EQ(mine, root_in_world * 100 + own_rank);

      int in[2] = {rank + 1, 1}, out[2] = {0, 0}, sum = 0;
      MPI_Reduce(in, out, 2, MPI_INT, MPI_SUM, here, comm);
      for (int i = 0; i < other_size; ++i) sum += other(i) + 1;
      if (here == MPI_ROOT) CHECK(out[0] == sum && out[1] == other_size);
    }
  }
}

static void symmetric(MPI_Comm comm) {
  int sum = 0;
  for (int i = 0; i < other_size; ++i) sum += other(i);
  MPI_Barrier(comm);
  int mine = rank, all[most_ranks] = {0};
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < other_size; ++i) CHECK_EQ(all[i], other(i));

  /* Everyone sends rank+1 elements, so that sides and ranks differ. */
  int counts[most_ranks], displs[most_ranks], total = 0, long_all[most_ranks * most_ranks], out[most_ranks];
  for (int i = 0; i < most_ranks; ++i) out[i] = rank * 50 + i;
  for (int i = 0; i < other_size; ++i) {
    counts[i] = other(i) + 1;
    displs[i] = total;
    total += counts[i];
  }
  MPI_Allgatherv(out, rank + 1, MPI_INT, long_all, counts, displs, MPI_INT, comm);
  for (int i = 0; i < other_size; ++i) {
    for (int k = 0; k < counts[i]; ++k) CHECK_EQ(long_all[displs[i] + k], other(i) * 50 + k);
  }

  MPI_Alltoall(out, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < other_size; ++i) CHECK_EQ(all[i], other(i) * 50 + own_rank);

  int result = -1;
  MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_SUM, comm);
  CHECK_EQ(result, sum);

  /* Blocks of other_size elements each, so that both sides reduce own_size * other_size of them. */
  int in[most_ranks * most_ranks], block[most_ranks];
  for (int i = 0; i < own_size * other_size; ++i) in[i] = rank + i;
  MPI_Reduce_scatter_block(in, block, other_size, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < other_size; ++i) {
    CHECK_EQ(block[i], sum + other_size * (own_rank * other_size + i));
  }

  MPI_Request request;
  result = -1;
  MPI_Iallreduce(&mine, &result, 1, MPI_INT, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK_EQ(result, sum);
  MPI_Allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &request);
  for (int round = 0; round < 3; ++round) {
    mine = rank + round;
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < other_size; ++i) CHECK_EQ(all[i], other(i) + round);
  }
  MPI_Request_free(&request);
}

static void duplicates_and_parts(void) {
  MPI_Comm copy, late, part;
  MPI_Request request;
  MPI_Comm_dup(inter, &copy);
  MPI_Comm_idup(inter, &late, &request);
  symmetric(copy);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  symmetric(late);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&late);

  /* The ranks 0 of both sides, in one colour; the others have no rank opposite them. */
  MPI_Comm_split(inter, own_rank == 0 ? 3 : 10 + rank % 2, 0, &part);
  CHECK((part == MPI_COMM_NULL) == (own_rank != 0));
  if (part != MPI_COMM_NULL) {
    int n = -1, value = rank, result = -1;
    MPI_Comm_remote_size(part, &n);
    CHECK_EQ(n, 1);
    MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, part);
    CHECK_EQ(result, 1 - rank);
    MPI_Comm_free(&part);
  }

  MPI_Group group, first;
  MPI_Comm_group(inter, &group);
  const int zero = 0;
  MPI_Group_incl(group, 1, &zero, &first);
  MPI_Comm_create(inter, first, &part);
  CHECK((part == MPI_COMM_NULL) == (own_rank != 0));
  if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
  MPI_Group_free(&group);
  MPI_Group_free(&first);
}

static void merges(void) {
  for (int high_side = 0; high_side < 2; ++high_side) {
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, rank % 2 == high_side, &merged);
    int n = -1, place = -1;
    MPI_Comm_size(merged, &n);
    CHECK_EQ(n, size);
    MPI_Comm_rank(merged, &place);
    CHECK_EQ(place, own_rank + (rank % 2 == high_side ? other_size : 0));
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK_EQ(sum, size * (size - 1) / 2);
    MPI_Comm_free(&merged);
  }
  MPI_Comm merged; /* both say the same: any order that all agree on */
  MPI_Intercomm_merge(inter, 0, &merged);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
  CHECK_EQ(sum, size * (size - 1) / 2);
  MPI_Comm_free(&merged);
}

/* Of a rank that passes MPI_PROC_NULL no other argument counts. */
static void insignificant_arguments(void) {
  const int root_side = 1; /* the odd ranks; the first of them is the root */
  for (int form = 0; form < 3; ++form) {
    int sum = -1, expected = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    const void* in = &rank;
    void* out = NULL;
    int count = 1, root = 0;
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
    if (rank % 2 == root_side) {
      in = NULL;
      root = own_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
      out = own_rank == 0 ? &sum : NULL;
      if (root == MPI_PROC_NULL) {
        count = own_rank % 2 == 0 ? -1 : 0;
        type = own_rank % 2 == 0 ? MPI_DATATYPE_NULL : MPI_BYTE;
        op = own_rank % 2 == 0 ? MPI_OP_NULL : MPI_SUM;
      }
    }
    if (form == 0) CHECK(MPI_Reduce(in, out, count, type, op, root, inter) == MPI_SUCCESS);
    if (form == 1) CHECK(MPI_Ireduce(in, out, count, type, op, root, inter, &request) == MPI_SUCCESS);
    if (form == 2) {
      CHECK(MPI_Reduce_init(in, out, count, type, op, root, inter, MPI_INFO_NULL, &request) == MPI_SUCCESS);
      CHECK(MPI_Start(&request) == MPI_SUCCESS);
    }
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    if (form == 2) MPI_Request_free(&request);
    for (int other_rank = 0; other_rank < size; other_rank += 2) expected += other_rank;
    if (root == MPI_ROOT) CHECK_EQ(sum, expected);
  }
}

static void wrong_arguments(void) {
  int error_class, n;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Comm_remote_size(MPI_COMM_WORLD, &n), &error_class);
  CHECK_EQ(error_class, MPI_ERR_COMM);
  MPI_Error_class(MPI_Scan(&rank, &n, 1, MPI_INT, MPI_SUM, inter), &error_class);
  CHECK_EQ(error_class, MPI_ERR_COMM);
  MPI_Error_class(MPI_Bcast(&n, 1, MPI_INT, other_size, inter), &error_class);
  CHECK_EQ(error_class, MPI_ERR_ROOT);
  MPI_Error_class(MPI_Send(&n, 1, MPI_INT, other_size, 0, inter), &error_class);
  CHECK_EQ(error_class, MPI_ERR_RANK);
  MPI_Error_class(MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, inter), &error_class);
  CHECK_EQ(error_class, MPI_ERR_BUFFER);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  CHECK(size >= 2 && size <= most_ranks);
  make();
  asking();
  messages();
  rooted(inter);
  symmetric(inter);
  duplicates_and_parts();
  merges();
  insignificant_arguments();
  wrong_arguments();
  MPI_Comm_free(&inter);
  MPI_Comm_free(&side);
  MPI_Finalize();
  return 0;
}
