/* SPDX-License-Identifier: Apache-2.0
 * Mistakes that no declaration tells of, each with the error class that the standard names for it: what does not fit
 * together, what is not there, what comes at the wrong moment.  The state before the mistake is the state after it. */
#include "tests/mpi_shim/programs/check.h"

static int rank, size;

static int class_of(int code) {
  int error_class = -1;
  CHECK_EQ(MPI_Error_class(code, &error_class), MPI_SUCCESS);
  return error_class;
}
#define REFUSED(call, expected) CHECK_EQ(class_of(call), expected)

static void truncation(void) {
  int out[4] = {1, 2, 3, 4}, in[8];
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Request requests[3];
  MPI_Status statuses[3], status;
  MPI_Isend(out, 4, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]);
  REFUSED(MPI_Recv(in, 2, MPI_INT, previous, 1, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  REFUSED(MPI_Sendrecv(out, 4, MPI_INT, next, 1, in, 3, MPI_INT, previous, 1, MPI_COMM_WORLD, &status),
          MPI_ERR_TRUNCATE);
  /* Several at once: the statuses tell which. */
  MPI_Irecv(&in[0], 4, MPI_INT, previous, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&in[4], 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Irecv(&in[5], 1, MPI_INT, previous, 4, MPI_COMM_WORLD, &requests[2]);
  for (int tag = 2; tag < 5; ++tag) MPI_Send(out, tag == 4 ? 1 : 4, MPI_INT, next, tag, MPI_COMM_WORLD);
  REFUSED(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
  CHECK_EQ(class_of(statuses[1].MPI_ERROR), MPI_ERR_TRUNCATE);
  for (int i = 0; i < 3; i += 2) {
    CHECK(statuses[i].MPI_ERROR == MPI_SUCCESS || class_of(statuses[i].MPI_ERROR) == MPI_ERR_PENDING);
  }
  for (int i = 0; i < 3; ++i) CHECK_EQ(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
  CHECK(in[0] == 1 && in[3] == 4 && in[5] == 1);
  int place = 2;
  REFUSED(MPI_Pack(out, 4, MPI_INT, in, 16, &place, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
  REFUSED(MPI_Unpack(in, 16, &place, out, 4, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
  CHECK_EQ(place, 2);
}

/* Rank 0 of scatter and all ranks of alltoall send more than is received.  It is an error at a sender or at the
 * receivers, and goes nowhere else: what the ranks exchange afterwards is right. */
static void longer_blocks(int sent, int received) {
  enum { kMost = 1000 };
  static int out[2 * kMost], in[2 * kMost + 1];
  int classes[2] = {MPI_SUCCESS, MPI_SUCCESS}, worst[2];
  for (int i = 0; i < 2 * kMost; ++i) out[i] = -5;
  for (int i = 0; i <= 2 * kMost; ++i) in[i] = -6;
  if (size != 2) return;
  classes[0] = class_of(MPI_Alltoall(out, sent, MPI_INT, in, received, MPI_INT, MPI_COMM_WORLD));
  for (int i = 2 * received; i <= 2 * kMost; ++i) CHECK_EQ(in[i], -6);
  classes[1] = class_of(MPI_Scatter(out, sent, MPI_INT, in, received, MPI_INT, 0, MPI_COMM_WORLD));
  for (int i = 2 * received; i <= 2 * kMost; ++i) CHECK_EQ(in[i], -6);
  for (int i = 0; i < 100; ++i) { /* all that is in shared memory is used again */
    CHECK_EQ(MPI_Allreduce(classes, worst, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQ(worst[0], MPI_ERR_TRUNCATE);
    CHECK_EQ(worst[1], MPI_ERR_TRUNCATE);
  }
}

static void buffers(void) {
  static char room[MPI_BSEND_OVERHEAD + 64], big[1024];
  int value = 0, bytes = 0;
  void* back = NULL;
  REFUSED(MPI_Send(NULL, 1, MPI_INT, rank, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  REFUSED(MPI_Recv(NULL, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
  REFUSED(MPI_Bsend(&value, 1, MPI_INT, rank, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  REFUSED(MPI_Buffer_detach(&back, &bytes), MPI_ERR_BUFFER);
  MPI_Buffer_attach(room, (int)sizeof room);
  REFUSED(MPI_Buffer_attach(room, (int)sizeof room), MPI_ERR_BUFFER);
  REFUSED(MPI_Bsend(big, (int)sizeof big, MPI_BYTE, rank, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  MPI_Buffer_detach(&back, &bytes);
  CHECK(back == room);
  REFUSED(MPI_Alltoall(&value, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  REFUSED(MPI_Scan(&value, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  REFUSED(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

static void operations(void) {
  double in = 1, out = 0;
  int value = 1;
  MPI_Op sum = MPI_SUM;
  REFUSED(MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
  REFUSED(MPI_Reduce(&in, &out, 1, MPI_DOUBLE, MPI_MINLOC, 0, MPI_COMM_WORLD), MPI_ERR_OP);
  REFUSED(MPI_Scan(&value, &value, 1, MPI_BYTE, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP);
  REFUSED(MPI_Reduce_local(&in, &out, 1, MPI_DOUBLE, MPI_REPLACE), MPI_ERR_OP);
  REFUSED(MPI_Op_free(&sum), MPI_ERR_OP);
  CHECK(sum == MPI_SUM);
}

static void predefined_objects_stay(void) {
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Datatype type = MPI_INT;
  REFUSED(MPI_Comm_free(&world), MPI_ERR_COMM);
  REFUSED(MPI_Comm_disconnect(&world), MPI_ERR_COMM);
  REFUSED(MPI_Type_free(&type), MPI_ERR_TYPE);
  CHECK(world == MPI_COMM_WORLD && type == MPI_INT);
}

static void groups(void) {
  MPI_Group world, self, made = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  const int twice[2] = {0, 0}, outside[1] = {size};
  int zero_stride[1][3] = {{0, 0, 0}}, beyond[1][3] = {{0, size, 1}}, translated[1];
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_group(MPI_COMM_SELF, &self);
  REFUSED(MPI_Group_incl(world, 2, twice, &made), MPI_ERR_RANK);
  REFUSED(MPI_Group_excl(world, 1, outside, &made), MPI_ERR_RANK);
  REFUSED(MPI_Group_range_incl(world, 1, zero_stride, &made), MPI_ERR_ARG);
  REFUSED(MPI_Group_range_excl(world, 1, beyond, &made), MPI_ERR_RANK);
  REFUSED(MPI_Group_translate_ranks(world, 1, outside, self, translated), MPI_ERR_RANK);
  CHECK(made == MPI_GROUP_NULL);
  if (size > 1) { /* a group that has processes which the communicator has not, or not this one */
    MPI_Group other;
    MPI_Group_difference(world, self, &other);
    REFUSED(MPI_Comm_create(MPI_COMM_SELF, world, &comm), MPI_ERR_GROUP);
    REFUSED(MPI_Comm_create_group(MPI_COMM_SELF, world, 1, &comm), MPI_ERR_GROUP);
    REFUSED(MPI_Comm_create_from_group(other, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
    MPI_Group_free(&other);
  }
  CHECK(comm == MPI_COMM_NULL);
  MPI_Group_free(&world);
  MPI_Group_free(&self);
}

static void communicators(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  int n = -1;
  REFUSED(MPI_Comm_remote_size(MPI_COMM_WORLD, &n), MPI_ERR_COMM);
  REFUSED(MPI_Comm_remote_group(MPI_COMM_WORLD, &group), MPI_ERR_COMM);
  REFUSED(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm), MPI_ERR_COMM);
  REFUSED(MPI_Comm_split(MPI_COMM_WORLD, -1, 0, &comm), MPI_ERR_ARG);
  REFUSED(MPI_Comm_split_type(MPI_COMM_WORLD, 1, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG);
  REFUSED(MPI_Send(&n, 1, MPI_INT, rank, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG);
  REFUSED(MPI_Send(&n, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  if (size > 1) { /* what an intercommunicator cannot do */
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &inter);
    const int dims[1] = {1}, periods[1] = {0};
    REFUSED(MPI_Cart_create(inter, 1, dims, periods, 0, &comm), MPI_ERR_COMM);
    REFUSED(MPI_Scan(&n, &n, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    REFUSED(MPI_Exscan(&n, &n, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    REFUSED(MPI_Bcast(&n, 1, MPI_INT, size, inter), MPI_ERR_ROOT);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
  }
  CHECK(comm == MPI_COMM_NULL && group == MPI_GROUP_NULL);
}

static void topologies(void) {
  MPI_Comm comm = MPI_COMM_NULL;
  int dims[2] = {0, 0}, periods[2] = {0, 0}, coords[2] = {0, 0}, n = -1, m = -1, k = -1;
  const int none[1] = {0}, one[1] = {1}, too_many[1] = {size + 1};
  REFUSED(MPI_Cartdim_get(MPI_COMM_WORLD, &n), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_get(MPI_COMM_WORLD, 2, dims, periods, coords), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_rank(MPI_COMM_WORLD, coords, &n), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_coords(MPI_COMM_WORLD, 0, 2, coords), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &n, &m), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_sub(MPI_COMM_WORLD, one, &comm), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Graphdims_get(MPI_COMM_WORLD, &n, &m), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Graph_get(MPI_COMM_WORLD, 2, 2, dims, coords), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &n), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Graph_neighbors(MPI_COMM_WORLD, 0, 2, dims), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &n, &m, &k), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Dist_graph_neighbors(MPI_COMM_WORLD, 1, dims, MPI_UNWEIGHTED, 1, coords, MPI_UNWEIGHTED),
          MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Neighbor_alltoall(dims, 1, MPI_INT, coords, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Neighbor_allgather(dims, 1, MPI_INT, coords, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
  REFUSED(MPI_Cart_create(MPI_COMM_WORLD, 1, none, none, 0, &comm), MPI_ERR_DIMS);
  REFUSED(MPI_Cart_create(MPI_COMM_WORLD, -1, one, none, 0, &comm), MPI_ERR_DIMS);
  CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, too_many, none, 0, &comm)) != MPI_SUCCESS);
  dims[0] = 2;
  REFUSED(MPI_Dims_create(7, 2, dims), MPI_ERR_DIMS);
  dims[0] = -2;
  REFUSED(MPI_Dims_create(8, 2, dims), MPI_ERR_DIMS);
  CHECK(comm == MPI_COMM_NULL);
  const int all[1] = {size};
  MPI_Cart_create(MPI_COMM_WORLD, 1, all, none, 0, &comm);
  REFUSED(MPI_Cart_shift(comm, 1, 1, &n, &m), MPI_ERR_DIMS);
  REFUSED(MPI_Cart_coords(comm, size, 1, coords), MPI_ERR_RANK);
  REFUSED(MPI_Cart_rank(comm, all, &n), MPI_ERR_ARG);
  REFUSED(MPI_Cart_rank(comm, NULL, &n), MPI_ERR_ARG);
  REFUSED(MPI_Cart_coords(comm, 0, 1, NULL), MPI_ERR_ARG);
  REFUSED(MPI_Cart_get(comm, 1, dims, periods, NULL), MPI_ERR_ARG);
  CHECK_EQ(MPI_Cart_coords(comm, 0, 0, NULL), MPI_SUCCESS);
  MPI_Comm_free(&comm);
}

static void infos(void) {
  MPI_Info info;
  char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
  int n = 0, flag = 0;
  memset(key, 'k', sizeof key - 1);
  memset(value, 'v', sizeof value - 1);
  key[sizeof key - 1] = value[sizeof value - 1] = '\0';
  MPI_Info_create(&info);
  REFUSED(MPI_Info_set(info, key, "value"), MPI_ERR_INFO_KEY);
  REFUSED(MPI_Info_set(info, "", "value"), MPI_ERR_INFO_KEY);
  REFUSED(MPI_Info_set(info, "key", value), MPI_ERR_INFO_VALUE);
  REFUSED(MPI_Info_get(info, key, 1, value, &flag), MPI_ERR_INFO_KEY);
  REFUSED(MPI_Info_get_string(info, key, &n, value, &flag), MPI_ERR_INFO_KEY);
  MPI_Info_set(info, "there", "x");
  n = 1;
  REFUSED(MPI_Info_get_string(info, "there", &n, NULL, &flag), MPI_ERR_ARG);
  MPI_Info_delete(info, "there");
  REFUSED(MPI_Info_get_valuelen(info, key, &n, &flag), MPI_ERR_INFO_KEY);
  REFUSED(MPI_Info_delete(info, "absent"), MPI_ERR_INFO_NOKEY);
  CHECK(class_of(MPI_Info_get_nthkey(info, 0, key)) != MPI_SUCCESS);
  MPI_Info_get_nkeys(info, &n);
  CHECK_EQ(n, 0);
  MPI_Info_free(&info);
}

static void memory(void) {
  int here = 0;
  void* block = NULL;
  REFUSED(MPI_Free_mem(&here), MPI_ERR_BASE);
  REFUSED(MPI_Alloc_mem((MPI_Aint)1 << 62, MPI_INFO_NULL, &block), MPI_ERR_NO_MEM);
  CHECK(block == NULL);
}

static void requests(void) {
  MPI_Request inactive, none = MPI_REQUEST_NULL, active;
  int value = 0;
  MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &inactive);
  REFUSED(MPI_Start(&none), MPI_ERR_REQUEST);
  REFUSED(MPI_Request_free(&none), MPI_ERR_REQUEST);
  REFUSED(MPI_Cancel(&none), MPI_ERR_REQUEST);
  REFUSED(MPI_Grequest_complete(inactive), MPI_ERR_REQUEST);
  MPI_Irecv(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &active);
  REFUSED(MPI_Start(&active), MPI_ERR_REQUEST); /* not a persistent one */
  MPI_Send(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
  MPI_Wait(&active, MPI_STATUS_IGNORE);
  MPI_Request_free(&inactive);
}

static void types(void) {
  MPI_Datatype type = MPI_DATATYPE_NULL, found = MPI_DATATYPE_NULL;
  MPI_Aint size_in_bytes = 0;
  int n[4], combiner;
  const int sizes[1] = {4}, subsizes[1] = {5}, starts[1] = {0};
  REFUSED(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
  REFUSED(MPI_Type_create_subarray(1, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
  REFUSED(MPI_Type_create_subarray(1, sizes, sizes, starts, 0, MPI_INT, &type), MPI_ERR_ARG);
  REFUSED(MPI_Type_get_contents(MPI_INT, 0, 0, 0, n, &size_in_bytes, &found), MPI_ERR_TYPE);
  REFUSED(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &found), MPI_ERR_ARG);
  CHECK(class_of(MPI_Pack_external_size("native", 1, MPI_INT, &size_in_bytes)) != MPI_SUCCESS);
  CHECK(type == MPI_DATATYPE_NULL);
  MPI_Type_contiguous(2, MPI_INT, &type);
  REFUSED(MPI_Type_get_contents(type, 0, 0, 1, n, &size_in_bytes, &found), MPI_ERR_ARG);
  CHECK_EQ(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner), MPI_SUCCESS);
  MPI_Type_free(&type);
}

static void windows(void) {
  MPI_Win win, dynamic;
  MPI_Group world, self;
  int value = 0, other = 0, flag = 0, unit = 0;
  double real = 0;
  int* base = NULL;
  MPI_Aint bytes = 0;
  MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_group(MPI_COMM_SELF, &self);
  /* Outside of any epoch. */
  REFUSED(MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Get(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Accumulate(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Fetch_and_op(&value, &other, MPI_INT, rank, 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Compare_and_swap(&value, &value, &other, MPI_INT, rank, 0, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_unlock(rank, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_flush(rank, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_flush_local(rank, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
  /* In one. */
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  REFUSED(MPI_Put(&value, 1, MPI_INT, rank, 4, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  REFUSED(MPI_Get(&value, 1, MPI_INT, rank, -1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  REFUSED(MPI_Rput(&value, 1, MPI_INT, rank, 4, 1, MPI_INT, win, &request), MPI_ERR_RMA_RANGE);
  REFUSED(MPI_Accumulate(&real, 1, MPI_DOUBLE, rank, 0, 1, MPI_DOUBLE, MPI_BXOR, win), MPI_ERR_OP);
  REFUSED(MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, rank, 0, win), MPI_ERR_TYPE);
  CHECK(request == MPI_REQUEST_NULL);
  CHECK_EQ(MPI_Win_unlock(rank, win), MPI_SUCCESS);
  /* Windows of the other flavours. */
  REFUSED(MPI_Win_attach(win, &value, sizeof value), MPI_ERR_RMA_FLAVOR);
  REFUSED(MPI_Win_detach(win, &value), MPI_ERR_RMA_FLAVOR);
  REFUSED(MPI_Win_shared_query(dynamic, rank, &bytes, &unit, &base), MPI_ERR_RMA_FLAVOR);
  REFUSED(MPI_Win_detach(dynamic, &value), MPI_ERR_RMA_ATTACH);
  CHECK_EQ(MPI_Win_attach(dynamic, &value, sizeof value), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_detach(dynamic, &value), MPI_SUCCESS);
  if (size > 1) { /* an epoch towards a process that the window has not */
    MPI_Win alone;
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_SELF, &alone);
    MPI_Win_set_errhandler(alone, MPI_ERRORS_RETURN);
    REFUSED(MPI_Win_post(world, 0, alone), MPI_ERR_GROUP);
    REFUSED(MPI_Win_start(world, 0, alone), MPI_ERR_GROUP);
    CHECK_EQ(MPI_Win_free(&alone), MPI_SUCCESS);
  }
  MPI_Group_free(&world);
  MPI_Group_free(&self);
  CHECK_EQ(MPI_Win_free(&dynamic), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

/* Where ranks have no memory in common there is no such window: told by all of them. */
static void no_shared_memory(int expected) {
  MPI_Win win = MPI_WIN_NULL;
  int* base = NULL;
  REFUSED(MPI_Win_allocate_shared(16, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win),
          expected ? MPI_ERR_RMA_SHARED : 0);
  CHECK_EQ(win == MPI_WIN_NULL, expected);
  if (win != MPI_WIN_NULL) MPI_Win_free(&win);
}

static void error_codes(void) {
  int error_class = 0, code = 0, length = 0;
  char text[MPI_MAX_ERROR_STRING];
  REFUSED(MPI_Add_error_code(MPI_ERR_LASTCODE, &code), MPI_ERR_ARG);
  REFUSED(MPI_Add_error_string(MPI_ERR_TYPE, "mine"), MPI_ERR_ARG);
  REFUSED(MPI_Error_string(1 << 30, text, &length), MPI_ERR_ARG);
  REFUSED(MPI_Error_class(1 << 30, &error_class), MPI_ERR_ARG);
  REFUSED(MPI_Remove_error_class(MPI_ERR_TYPE), MPI_ERR_ARG);
  REFUSED(MPI_Remove_error_code(1 << 30), MPI_ERR_ARG);
  REFUSED(MPI_Remove_error_string(MPI_ERR_TYPE), MPI_ERR_ARG);
}

static int refuse(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)out, (void)flag;
  return MPI_ERR_OTHER;
}
/* What a callback returns is what the function returns. */
static void callbacks(void) {
  MPI_Comm comm, copy = MPI_COMM_SELF;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_attr(comm, key, NULL);
  REFUSED(MPI_Comm_dup(comm, &copy), MPI_ERR_OTHER);
  CHECK(copy == MPI_COMM_NULL);
  MPI_Comm_delete_attr(comm, key);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&comm);
}

static void what_is_not_there(void) {
  MPI_File file = MPI_FILE_NULL;
  REFUSED(MPI_File_open(MPI_COMM_WORLD, "absent", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_UNSUPPORTED_OPERATION);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  truncation();
  longer_blocks(1000, 10);
  longer_blocks(1000, 0);
  buffers();
  operations();
  predefined_objects_stay();
  groups();
  communicators();
  topologies();
  infos();
  memory();
  requests();
  types();
  windows();
  const char* const share = getenv("OPAL_MPI_RMA_SHARE");
  no_shared_memory(share != NULL && strcmp(share, "no") == 0);
  error_codes();
  callbacks();
  what_is_not_there();
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS); /* all works on */
  MPI_Finalize();
  return 0;
}
