/* SPDX-License-Identifier: Apache-2.0
 * The functions that no other of these programs calls: questions to the library, handles as integers, statuses, keys
 * and attributes under their old names, communicators of groups, hints, error handlers that the program calls itself.
 */
#include "tests/mpi_shim/programs/check.h"

static int rank, size;

static void versions_and_time(void) {
  int major = 0, minor = -1, length = 0, level = -1;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  CHECK_EQ(MPI_Get_version(&major, &minor), MPI_SUCCESS);
  CHECK(major == MPI_VERSION && minor == MPI_SUBVERSION);
  CHECK_EQ(MPI_Abi_get_version(&major, &minor), MPI_SUCCESS);
  CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
  CHECK_EQ(MPI_Get_library_version(text, &length), MPI_SUCCESS);
  CHECK(length > 0 && length == (int)strlen(text));
  CHECK_EQ(MPI_Query_thread(&level), MPI_SUCCESS);
  CHECK_EQ(level, MPI_THREAD_SINGLE);
  CHECK_EQ(MPI_Pcontrol(1), MPI_SUCCESS);
  const double tick = MPI_Wtick(), first = MPI_Wtime();
  CHECK(tick > 0 && tick < 1);
  double later = first;
  while (later < first + 2 * tick) { /* time moves on */
    later = MPI_Wtime();
    CHECK(later >= first);
  }
}

static void addresses(void) {
  int values[4] = {0};
  MPI_Aint first, last;
  CHECK_EQ(MPI_Get_address(&values[0], &first), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_address(&values[3], &last), MPI_SUCCESS);
  CHECK_EQ(MPI_Aint_diff(last, first), 3 * (int)sizeof(int));
  CHECK_EQ(MPI_Aint_diff(first, last), -3 * (int)sizeof(int));
  CHECK(MPI_Aint_add(first, 3 * sizeof(int)) == last);
}

static void check_value(MPI_Info info, const char* key, const char* expected) {
  char value[MPI_MAX_INFO_VAL + 1] = "?";
  int flag = 0, length = -1, room = sizeof value;
  CHECK_EQ(MPI_Info_get_valuelen(info, key, &length, &flag), MPI_SUCCESS);
  CHECK(flag);
  CHECK_EQ(length, (int)strlen(expected));
  CHECK_EQ(MPI_Info_get_string(info, key, &room, value, &flag), MPI_SUCCESS);
  CHECK(flag && strcmp(value, expected) == 0);
}

static void infos(void) {
  MPI_Info info;
  char zero[] = "./solver", one[] = "-n", two[] = "7";
  char* arguments[] = {zero, one, two, NULL};
  char number[16];
  int flag = 1, length = -1;
  CHECK_EQ(MPI_Info_create_env(3, arguments, &info), MPI_SUCCESS);
  check_value(info, "command", "./solver");
  check_value(info, "argv", "-n 7");
  CHECK_EQ(MPI_Info_get_valuelen(info, "absent", &length, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Abi_get_info(&info), MPI_SUCCESS);
  snprintf(number, sizeof number, "%zu", sizeof(MPI_Aint));
  check_value(info, "mpi_aint_size", number);
  snprintf(number, sizeof number, "%zu", sizeof(MPI_Count));
  check_value(info, "mpi_count_size", number);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_hw_resource_info(&info), MPI_SUCCESS);
  check_value(info, "mpi_shared_memory", "true");
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
}

/* A handle comes back from its integer, a predefined one and one of the program's own. */
#define CHECK_INTEGER(Kind, handle)                   \
  do {                                                \
    const int integer = MPI_##Kind##_toint(handle);   \
    CHECK(MPI_##Kind##_fromint(integer) == (handle)); \
  } while (0)

static void add(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((int*)inout)[i] += ((const int*)in)[i];
}
static void ignore_comm(MPI_Comm* comm, int* code, ...) { (void)comm, (void)code; }

static void integers(void) {
  MPI_Errhandler handler;
  MPI_Group group;
  MPI_Info info;
  MPI_Op op;
  MPI_Request request;
  MPI_Win win;
  int commutes = -1;
  CHECK_EQ(MPI_Comm_create_errhandler(ignore_comm, &handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &group), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Op_create(add, 0, &op), MPI_SUCCESS);
  CHECK_EQ(MPI_Irecv(&commutes, 1, MPI_INT, rank, 99, MPI_COMM_WORLD, &request), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_INTEGER(Errhandler, handler);
  CHECK_INTEGER(Errhandler, MPI_ERRORS_RETURN);
  CHECK_INTEGER(Group, group);
  CHECK_INTEGER(Group, MPI_GROUP_EMPTY);
  CHECK_INTEGER(Info, info);
  CHECK_INTEGER(Info, MPI_INFO_ENV);
  CHECK_INTEGER(Op, op);
  CHECK_INTEGER(Op, MPI_MAXLOC);
  CHECK_INTEGER(Request, request);
  CHECK_INTEGER(Request, MPI_REQUEST_NULL);
  CHECK_INTEGER(Win, win);
  CHECK_INTEGER(Win, MPI_WIN_NULL);
  CHECK_INTEGER(Message, MPI_MESSAGE_NO_PROC);
  CHECK_INTEGER(Session, MPI_SESSION_NULL);
  CHECK_INTEGER(File, MPI_FILE_NULL);
  CHECK_EQ(MPI_Cancel(&request), MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  CHECK_EQ(MPI_Op_commutative(op, &commutes), MPI_SUCCESS);
  CHECK_EQ(commutes, 0);
  CHECK_EQ(MPI_Op_commutative(MPI_SUM, &commutes), MPI_SUCCESS);
  CHECK_EQ(commutes, 1);
  CHECK_EQ(MPI_Op_free(&op), MPI_SUCCESS);
  CHECK_EQ(MPI_Op_create(add, 1, &op), MPI_SUCCESS);
  CHECK_EQ(MPI_Op_commutative(op, &commutes), MPI_SUCCESS);
  CHECK_EQ(commutes, 1);
  CHECK_EQ(MPI_Op_free(&op), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Group_free(&group), MPI_SUCCESS);
  CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
}

static void statuses(void) {
  MPI_Status status;
  int value = -1;
  memset(&status, 0, sizeof status);
  CHECK_EQ(MPI_Status_set_source(&status, 3), MPI_SUCCESS);
  CHECK_EQ(MPI_Status_set_tag(&status, 14), MPI_SUCCESS);
  CHECK_EQ(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE), MPI_SUCCESS);
  CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 14 && status.MPI_ERROR == MPI_ERR_TRUNCATE);
  CHECK_EQ(MPI_Status_get_source(&status, &value), MPI_SUCCESS);
  CHECK_EQ(value, 3);
  CHECK_EQ(MPI_Status_get_tag(&status, &value), MPI_SUCCESS);
  CHECK_EQ(value, 14);
  CHECK_EQ(MPI_Status_get_error(&status, &value), MPI_SUCCESS);
  CHECK_EQ(value, MPI_ERR_TRUNCATE);
  MPI_Count many = -1;
  CHECK_EQ(MPI_Status_set_elements_x(&status, MPI_DOUBLE, 6), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_elements_x(&status, MPI_DOUBLE, &many), MPI_SUCCESS);
  CHECK_EQ(many, 6);
  CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 14); /* the amount of data is another matter */
}

/* What is not there yet is not reported, and what is there is reported once. */
static void tests_of_several(void) {
  enum { kMany = 3 };
  int in[kMany] = {-1, -1, -1}, out[kMany] = {10, 11, 12}, flag = -1, place = -1, count = -1, places[kMany],
      reported = 0;
  MPI_Request requests[kMany];
  MPI_Status statuses[kMany];
  for (int i = 0; i < kMany; ++i) MPI_Irecv(&in[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
  CHECK_EQ(MPI_Testall(kMany, requests, &flag, statuses), MPI_SUCCESS);
  CHECK_EQ(flag, 0);
  CHECK_EQ(MPI_Testany(kMany, requests, &place, &flag, statuses), MPI_SUCCESS);
  CHECK(flag == 0 && place == MPI_UNDEFINED);
  CHECK_EQ(MPI_Testsome(kMany, requests, &count, places, statuses), MPI_SUCCESS);
  CHECK_EQ(count, 0);
  MPI_Send(&out[2], 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
  for (flag = 0; !flag;) CHECK_EQ(MPI_Testany(kMany, requests, &place, &flag, statuses), MPI_SUCCESS);
  CHECK(place == 2 && statuses[0].MPI_TAG == 2 && in[2] == 12 && requests[2] == MPI_REQUEST_NULL);
  MPI_Send(&out[0], 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
  CHECK_EQ(MPI_Waitsome(kMany, requests, &count, places, statuses), MPI_SUCCESS);
  CHECK(count == 1 && places[0] == 0 && statuses[0].MPI_TAG == 0 && in[0] == 10);
  MPI_Send(&out[1], 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
  while (reported == 0) {
    CHECK_EQ(MPI_Testsome(kMany, requests, &reported, places, statuses), MPI_SUCCESS);
  }
  CHECK(reported == 1 && places[0] == 1 && in[1] == 11);
  CHECK_EQ(MPI_Testall(kMany, requests, &flag, statuses), MPI_SUCCESS); /* none is left */
  CHECK_EQ(flag, 1);
  CHECK_EQ(MPI_Testsome(kMany, requests, &count, places, statuses), MPI_SUCCESS);
  CHECK_EQ(count, MPI_UNDEFINED);
}

static void names_of_types(void) {
  char name[MPI_MAX_OBJECT_NAME] = "?";
  int length = -1;
  MPI_Datatype type, copy;
  MPI_Type_contiguous(3, MPI_INT, &type);
  CHECK_EQ(MPI_Type_get_name(type, name, &length), MPI_SUCCESS);
  CHECK_EQ(length, 0);
  CHECK_EQ(MPI_Type_set_name(type, "triple"), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_name(type, name, &length), MPI_SUCCESS);
  CHECK(length == 6 && strcmp(name, "triple") == 0);
  MPI_Type_dup(type, &copy);
  CHECK_EQ(MPI_Type_get_name(copy, name, &length), MPI_SUCCESS);
  CHECK_EQ(length, 0); /* names are not copied */
  MPI_Type_free(&copy);
  MPI_Type_free(&type);
}

static int deleted;
static int copy_attribute(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key;
  *(void**)out = (char*)in + *(int*)extra;
  *flag = 1;
  return MPI_SUCCESS;
}
static int delete_attribute(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value;
  deleted += *(int*)extra;
  return MPI_SUCCESS;
}

static void attributes_by_their_old_names(void) {
  static char place[8];
  int key = MPI_KEYVAL_INVALID, extra = 2, flag = 1;
  char* value = NULL;
  MPI_Comm comm, copy;
  CHECK_EQ(MPI_Keyval_create(copy_attribute, delete_attribute, &key, &extra), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
  CHECK_EQ(MPI_Attr_get(comm, key, &value, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Attr_put(comm, key, place), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_get_attr(comm, key, &value, &flag), MPI_SUCCESS); /* both names, one attribute */
  CHECK(flag && value == place);
  CHECK_EQ(MPI_Comm_dup(comm, &copy), MPI_SUCCESS);
  CHECK_EQ(MPI_Attr_get(copy, key, &value, &flag), MPI_SUCCESS);
  CHECK(flag && value == place + 2);
  CHECK_EQ(MPI_Attr_delete(copy, key), MPI_SUCCESS);
  CHECK_EQ(deleted, 2);
  CHECK_EQ(MPI_Keyval_free(&key), MPI_SUCCESS);
  CHECK_EQ(key, MPI_KEYVAL_INVALID);
  CHECK_EQ(MPI_Comm_free(&copy), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
  CHECK_EQ(deleted, 4);
}

static int win_deleted;
static int delete_of_window(MPI_Win win, int key, void* value, void* extra) {
  (void)win, (void)key, (void)extra;
  win_deleted += *(int*)value;
  return MPI_SUCCESS;
}
static int win_heard, comm_heard;
static void hear_win(MPI_Win* win, int* code, ...) {
  CHECK(*win != MPI_WIN_NULL);
  win_heard = *code;
}
static void hear_comm(MPI_Comm* comm, int* code, ...) {
  CHECK(*comm != MPI_COMM_NULL);
  comm_heard = *code;
}

static void windows(void) {
  int key = MPI_KEYVAL_INVALID, five = 5, flag = 1;
  void* value = NULL;
  MPI_Win win;
  MPI_Errhandler handler;
  CHECK_EQ(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_of_window, &key, NULL), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_set_attr(win, key, &five), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_delete_attr(win, key), MPI_SUCCESS);
  CHECK_EQ(win_deleted, 5);
  CHECK_EQ(MPI_Win_get_attr(win, key, &value, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Win_free_keyval(&key), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_create_errhandler(hear_win, &handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_set_errhandler(win, handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_call_errhandler(win, MPI_ERR_RMA_CONFLICT), MPI_SUCCESS);
  CHECK_EQ(win_heard, MPI_ERR_RMA_CONFLICT);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

static void error_handlers(void) {
  MPI_Comm comm;
  MPI_Errhandler handler;
  int error_class = -1, code = -1, same_class = -1;
  CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_create_errhandler(hear_comm, &handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_errhandler(comm, handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER), MPI_SUCCESS);
  CHECK_EQ(comm_heard, MPI_ERR_OTHER);
  CHECK_EQ(MPI_Add_error_class(&error_class), MPI_SUCCESS);
  CHECK_EQ(MPI_Add_error_code(error_class, &code), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_call_errhandler(comm, code), MPI_SUCCESS);
  CHECK_EQ(comm_heard, code); /* the code itself, not its class */
  CHECK_EQ(MPI_Error_class(code, &same_class), MPI_SUCCESS);
  CHECK_EQ(same_class, error_class);
  CHECK_EQ(MPI_Remove_error_code(code), MPI_SUCCESS);
  CHECK_EQ(MPI_Remove_error_class(error_class), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER), MPI_SUCCESS); /* called, and it returned */
  CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
}

/* The sum of all ranks' ones, over a communicator or, when it is one, an intercommunicator's other side. */
static int count_over(MPI_Comm comm) {
  const int one = 1;
  int sum = -1;
  CHECK_EQ(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
  return sum;
}

static void hints_of_communicators(void) {
  MPI_Info info, used;
  MPI_Comm copy, later;
  MPI_Request request;
  char value[8];
  int flag = 1, same = -1;
  CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_set(info, "nobody_knows", "this"), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_compare(copy, MPI_COMM_WORLD, &same), MPI_SUCCESS);
  CHECK_EQ(same, MPI_CONGRUENT);
  CHECK_EQ(count_over(copy), size);
  CHECK_EQ(MPI_Comm_idup_with_info(copy, info, &later, &request), MPI_SUCCESS);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  CHECK_EQ(count_over(later), size);
  CHECK_EQ(MPI_Comm_set_info(later, info), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_get_info(later, &used), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_get(used, "nobody_knows", 7, value, &flag), MPI_SUCCESS);
  CHECK(!flag); /* what the library does not use it does not report */
  CHECK_EQ(MPI_Info_free(&used), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_disconnect(&later), MPI_SUCCESS);
  CHECK(later == MPI_COMM_NULL);
  CHECK_EQ(MPI_Comm_free(&copy), MPI_SUCCESS);
}

static void communicators_of_groups(void) {
  MPI_Group world, mine, other, others;
  MPI_Comm comm, inter;
  int members = -1, remote = -1, number = -1, result = -1;
  const int half = (size + 1) / 2;
  int low[1][3] = {{0, half - 1, 1}}, high[1][3] = {{half, size - 1, 1}};
  CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &world), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_create_from_group(world, "all ranks", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_SUCCESS);
  CHECK_EQ(count_over(comm), size);
  CHECK_EQ(MPI_Comm_rank(comm, &number), MPI_SUCCESS);
  CHECK_EQ(number, rank);
  CHECK_EQ(MPI_Send(NULL, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT); /* the handler that was given is in place */
  CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
  CHECK_EQ(MPI_Group_range_excl(world, 1, low, &others), MPI_SUCCESS); /* the upper half */
  CHECK_EQ(MPI_Group_size(others, &members), MPI_SUCCESS);
  CHECK_EQ(members, size - half);
  if (size > 1) {
    CHECK_EQ(MPI_Group_range_incl(world, 1, rank < half ? low : high, &mine), MPI_SUCCESS);
    CHECK_EQ(MPI_Group_range_incl(world, 1, rank < half ? high : low, &other), MPI_SUCCESS);
    CHECK_EQ(MPI_Group_compare(others, rank < half ? other : mine, &result), MPI_SUCCESS);
    CHECK_EQ(result, MPI_IDENT);
    CHECK_EQ(MPI_Intercomm_create_from_groups(mine, 0, other, 0, "halves", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &inter),
             MPI_SUCCESS);
    CHECK_EQ(MPI_Comm_remote_size(inter, &remote), MPI_SUCCESS);
    CHECK_EQ(remote, rank < half ? size - half : half);
    CHECK_EQ(count_over(inter), remote);
    CHECK_EQ(MPI_Comm_free(&inter), MPI_SUCCESS);
    CHECK_EQ(MPI_Group_free(&mine), MPI_SUCCESS);
    CHECK_EQ(MPI_Group_free(&other), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Group_free(&others), MPI_SUCCESS);
  CHECK_EQ(MPI_Group_free(&world), MPI_SUCCESS);
}

static void topologies(void) {
  const int dims[1] = {size}, periods[1] = {1};
  int index[64], edges[64], place = -1, dimensions = -1;
  MPI_Comm ring;
  CHECK_EQ(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring), MPI_SUCCESS);
  CHECK_EQ(MPI_Cartdim_get(ring, &dimensions), MPI_SUCCESS);
  CHECK_EQ(dimensions, 1);
  CHECK_EQ(MPI_Comm_free(&ring), MPI_SUCCESS);
  CHECK_EQ(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &place), MPI_SUCCESS);
  CHECK(place >= 0 && place < size);
  const int one[1] = {1};
  CHECK_EQ(MPI_Cart_map(MPI_COMM_WORLD, 1, one, periods, &place), MPI_SUCCESS);
  CHECK(place == 0 || place == MPI_UNDEFINED);
  for (int i = 0; i < size; ++i) {
    index[i] = i + 1;
    edges[i] = (i + 1) % size;
  }
  CHECK_EQ(MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &place), MPI_SUCCESS);
  CHECK(place >= 0 && place < size);
}

/* No rank ends a round before all have begun it. */
static void persistent_barrier(void) {
  MPI_Request barrier;
  MPI_Win win;
  int* begun = NULL;
  CHECK_EQ(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &begun, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock_all(0, win), MPI_SUCCESS);
  *begun = 0;
  CHECK_EQ(MPI_Win_sync(win), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  for (int round = 1; round <= 3; ++round) {
    const int one = 1, none = 0;
    int seen = -1;
    CHECK_EQ(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(0, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Start(&barrier), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&barrier, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQ(MPI_Fetch_and_op(&none, &seen, MPI_INT, 0, 0, MPI_NO_OP, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(0, win), MPI_SUCCESS);
    CHECK(seen >= round * size);
  }
  CHECK_EQ(MPI_Win_unlock_all(win), MPI_SUCCESS);
  CHECK_EQ(MPI_Request_free(&barrier), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

static void flushing_the_buffer(void) {
  static char room[1000 + MPI_BSEND_OVERHEAD];
  MPI_Request request;
  void* back = NULL;
  int bytes = 0, out = 100 + rank, in = -1;
  CHECK_EQ(MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, (int)sizeof room), MPI_SUCCESS);
  CHECK_EQ(MPI_Bsend(&out, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_iflush_buffer(MPI_COMM_WORLD, &request), MPI_SUCCESS);
  CHECK_EQ(MPI_Recv(&in, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
  CHECK_EQ(in, 100 + (rank + size - 1) % size);
  CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_detach_buffer(MPI_COMM_WORLD, &back, &bytes), MPI_SUCCESS);
  CHECK(back == room && bytes == (int)sizeof room);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  versions_and_time();
  addresses();
  infos();
  integers();
  statuses();
  tests_of_several();
  names_of_types();
  attributes_by_their_old_names();
  windows();
  error_handlers();
  hints_of_communicators();
  communicators_of_groups();
  topologies();
  persistent_barrier();
  flushing_the_buffer();
  MPI_Finalize();
  return 0;
}
