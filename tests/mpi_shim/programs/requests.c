/* SPDX-License-Identifier: Apache-2.0
 * Requests of all kinds: buffered sends, generalized requests, send-receives, looking without taking, error codes of
 * the program's own, MPI_INFO_ENV. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

static int rank, size, next, previous;

static void buffered(void) {
  enum { elements = 1000, messages = 3 };
  static int out[elements], in[elements];
  int packed = 0, detached = -1, error_class;
  MPI_Pack_size(elements, MPI_INT, MPI_COMM_WORLD, &packed);
  const int room = messages * (packed + MPI_BSEND_OVERHEAD);
  char* memory = malloc((size_t)room);
  void* back = NULL;

  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* for what names no communicator */
  MPI_Error_class(MPI_Bsend(out, elements, MPI_INT, next, 1, MPI_COMM_WORLD), &error_class);
  CHECK_EQ(error_class, MPI_ERR_BUFFER); /* nothing is attached */

  MPI_Buffer_attach(memory, room);
  CHECK(MPI_Buffer_attach(memory, room) != MPI_SUCCESS);
  for (int round = 0; round < 20; ++round) {
    MPI_Request requests[messages];
    for (int i = 0; i < messages; ++i) {
      for (int k = 0; k < elements; ++k) out[k] = rank * 10000 + round * 10 + i + k;
      if (i == 0) MPI_Bsend(out, elements, MPI_INT, next, i, MPI_COMM_WORLD);
      if (i == 1) MPI_Ibsend(out, elements, MPI_INT, next, i, MPI_COMM_WORLD, &requests[1]);
      if (i == 2) {
        MPI_Bsend_init(out, elements, MPI_INT, next, i, MPI_COMM_WORLD, &requests[2]);
        MPI_Start(&requests[2]);
        MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
        MPI_Request_free(&requests[2]);
      }
    }
    memset(out, 0, sizeof out); /* it is ours again */
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    for (int i = messages; i-- > 0;) {
      MPI_Recv(in, elements, MPI_INT, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int k = 0; k < elements; ++k) CHECK_EQ(in[k], previous * 10000 + round * 10 + i + k);
    }
    if (round % 2 == 0) {
      MPI_Request flush;
      MPI_Buffer_iflush(&flush);
      MPI_Wait(&flush, MPI_STATUS_IGNORE);
    } else {
      MPI_Buffer_flush();
    }
  }
  MPI_Buffer_detach(&back, &detached);
  CHECK(back == memory && detached == room);
  free(memory);

  /* As much as it takes, of a communicator of its own. */
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
  for (int i = 0; i < 200; ++i) {
    out[0] = i;
    MPI_Bsend(out, elements, MPI_INT, next, i, comm);
  }
  for (int i = 200; i-- > 0;) {
    MPI_Recv(in, elements, MPI_INT, previous, i, comm, MPI_STATUS_IGNORE);
    CHECK_EQ(in[0], i);
  }
  MPI_Comm_flush_buffer(comm);
  MPI_Comm_detach_buffer(comm, &back, &detached);
  CHECK(back == MPI_BUFFER_AUTOMATIC);
  MPI_Comm_free(&comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static int queried, freed, cancelled;
static int query(void* state, MPI_Status* status) {
  ++queried;
  MPI_Status_set_elements(status, MPI_INT, *(int*)state);
  MPI_Status_set_cancelled(status, cancelled);
  status->MPI_SOURCE = 7;
  status->MPI_TAG = 8;
  return MPI_SUCCESS;
}
static int release(void* state) {
  (void)state;
  ++freed;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  (void)state;
  CHECK(!complete);
  cancelled = 1;
  return MPI_SUCCESS;
}

static void generalized(void) {
  int amount = 5, flag = -1, count = -1;
  MPI_Request request;
  MPI_Status status;
  MPI_Grequest_start(query, release, cancel, &amount, &request);
  MPI_Test(&request, &flag, &status);
  CHECK_EQ(flag, 0);
  MPI_Grequest_complete(request);
  MPI_Request_get_status(request, &flag, &status);
  CHECK(flag == 1 && freed == 0 && queried == 1);
  MPI_Wait(&request, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 5 && status.MPI_SOURCE == 7 && status.MPI_TAG == 8);
  CHECK(request == MPI_REQUEST_NULL && freed == 1 && queried == 2);

  MPI_Grequest_start(query, release, cancel, &amount, &request);
  MPI_Cancel(&request);
  MPI_Grequest_complete(request);
  MPI_Waitall(1, &request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK_EQ(flag, 1);
  MPI_Grequest_start(query, release, cancel, &amount, &request);
  MPI_Grequest_complete(request);
  MPI_Request_free(&request);
  CHECK_EQ(freed, 3);
}

static int fail(void* state) {
  (void)state;
  return MPI_ERR_BUFFER;
}
static int fail_to_cancel(void* state, int complete) {
  (void)complete;
  return fail(state);
}
static int free_by_messages(void* state) {
  int in = -1, out = *(int*)state;
  return MPI_Sendrecv(&out, 1, MPI_INT, rank, 11, &in, 1, MPI_INT, rank, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/* What free and cancel callbacks return, the functions that call them return. */
static void failing_callbacks(void) {
  int amount = 1, flag = -1, which = -1;
  MPI_Request request;
  MPI_Status status;
  cancelled = 0; /* errors of these requests are MPI_COMM_SELF's, which returns them */
  for (int form = 0; form < 6; ++form) {
    MPI_Grequest_start(query, fail, cancel, &amount, &request);
    if (form != 5) MPI_Grequest_complete(request);
    if (form == 0) CHECK_EQ(class_of(MPI_Wait(&request, &status)), MPI_ERR_BUFFER);
    if (form == 1) CHECK_EQ(class_of(MPI_Test(&request, &flag, &status)), MPI_ERR_BUFFER);
    if (form == 2) CHECK_EQ(class_of(MPI_Waitany(1, &request, &which, &status)), MPI_ERR_BUFFER);
    if (form == 3) {
      CHECK_EQ(class_of(MPI_Waitall(1, &request, &status)), MPI_ERR_IN_STATUS);
      CHECK_EQ(class_of(status.MPI_ERROR), MPI_ERR_BUFFER);
    }
    if (form == 4) CHECK_EQ(class_of(MPI_Request_free(&request)), MPI_ERR_BUFFER);
    if (form == 5) { /* let go of first */
      MPI_Request same = request;
      CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
      CHECK_EQ(class_of(MPI_Grequest_complete(same)), MPI_ERR_BUFFER);
    }
    CHECK(request == MPI_REQUEST_NULL);
  }
  MPI_Grequest_start(query, release, fail_to_cancel, &amount, &request);
  CHECK_EQ(class_of(MPI_Cancel(&request)), MPI_ERR_BUFFER);
  MPI_Grequest_complete(request);
  CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
  /* A free callback may itself use MPI. */
  MPI_Grequest_start(query, free_by_messages, cancel, &amount, &request);
  MPI_Grequest_complete(request);
  CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
  MPI_Grequest_start(query, free_by_messages, cancel, &amount, &request);
  MPI_Request same = request;
  MPI_Request_free(&request);
  CHECK(MPI_Grequest_complete(same) == MPI_SUCCESS);
}

/* Statuses of null requests say MPI_SUCCESS. */
static void empty_statuses(void) {
  MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  for (int form = 0; form < 7; ++form) {
    MPI_Status status;
    int flag = -1, which = -1;
    status.MPI_ERROR = 77;
    if (form == 0) MPI_Wait(none, &status);
    if (form == 1) MPI_Test(none, &flag, &status);
    if (form == 2) MPI_Waitany(2, none, &which, &status);
    if (form == 3) MPI_Testany(2, none, &which, &flag, &status);
    if (form == 4) MPI_Request_get_status(none[0], &flag, &status);
    if (form == 5) MPI_Request_get_status_any(2, none, &which, &flag, &status);
    if (form == 6) MPI_Waitall(1, none, &status);
    CHECK_EQ(status.MPI_ERROR, MPI_SUCCESS);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
  }
}

/* Of a message to or from MPI_PROC_NULL nothing counts but the rank. */
static void messages_to_nobody(void) {
  int in = -1, packed = 0;
  MPI_Request requests[2];
  char memory[64 + MPI_BSEND_OVERHEAD];
  void* back;
  CHECK(MPI_Sendrecv(NULL, -1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, NULL, -1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(MPI_Sendrecv(&rank, 1, MPI_INT, next, 12, NULL, -1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 12, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(MPI_Sendrecv(NULL, -1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 12, &in, 1, MPI_INT, previous, 12, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK_EQ(in, previous);
  CHECK(MPI_Sendrecv_replace(NULL, 3, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
        MPI_SUCCESS);
  MPI_Isendrecv(NULL, 1, MPI_INT, MPI_PROC_NULL, 1, NULL, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isendrecv_replace(NULL, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
  CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  MPI_Buffer_attach(memory, sizeof memory);
  CHECK(MPI_Bsend(NULL, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
  MPI_Bsend_init(NULL, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Buffer_detach(&back, &packed);
}

/* A message that was matched survives its communicator. */
static void matched_before_the_end(void) {
  MPI_Comm comm;
  MPI_Message message;
  MPI_Request request;
  int in = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Isend(&rank, 1, MPI_INT, next, 13, comm, &request);
  MPI_Mprobe(previous, 13, comm, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
  MPI_Comm others[8]; /* which could take its place */
  for (int i = 0; i < 8; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &others[i]);
  CHECK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK_EQ(in, previous);
  for (int i = 0; i < 8; ++i) MPI_Comm_free(&others[i]);
}

static MPI_Comm failing;
static int raised;
static void count_errors(MPI_Comm* comm, int* code, ...) {
  CHECK(*comm == failing);
  CHECK(class_of(*code) == MPI_ERR_TRUNCATE || class_of(*code) == MPI_ERR_IN_STATUS || class_of(*code) == MPI_ERR_TYPE);
  ++raised;
}

/* Errors of what is in flight are raised on its communicator, which the program has freed meanwhile. */
static void errors_after_the_end(void) {
  const int out[2] = {rank, rank};
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(count_errors, &handler);
  for (int form = 0; form < 7; ++form) {
    MPI_Comm comm;
    MPI_Message message;
    MPI_Request requests[2];
    MPI_Status status;
    int in = -1, flag = 0, which = -1, error = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    failing = comm;
    raised = 0;
    if (form < 5) MPI_Irecv(&in, 1, MPI_INT, previous, 15, comm, &requests[0]);
    MPI_Isend(out, 2, MPI_INT, next, 15, comm, &requests[1]);
    if (form >= 5) MPI_Mprobe(previous, 15, comm, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    if (form == 0) error = MPI_Wait(requests, &status);
    if (form == 1)
      while (!flag) error = MPI_Test(requests, &flag, &status);
    if (form == 2) error = MPI_Waitany(1, requests, &which, &status);
    if (form == 3) error = MPI_Waitall(1, requests, &status);
    if (form == 4) error = MPI_Waitsome(1, requests, &flag, &which, &status);
    if (form == 5) error = MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
    if (form == 6) { /* first with a datatype that is not committed */
      MPI_Datatype type;
      MPI_Type_contiguous(2, MPI_INT, &type);
      CHECK_EQ(class_of(MPI_Mrecv(&in, 1, type, &message, &status)), MPI_ERR_TYPE);
      MPI_Type_free(&type);
      error = MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
    }
    CHECK_EQ(class_of(error), form == 3 || form == 4 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE);
    CHECK_EQ(raised, form == 6 ? 2 : 1);
  }
  MPI_Errhandler_free(&handler);
}

/* MPI_Comm_disconnect waits for what was started before. */
static void disconnecting(void) {
  MPI_Comm comm;
  MPI_Request requests[2];
  int in = -1, flag = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Irecv(&in, 1, MPI_INT, previous, 14, comm, &requests[0]);
  MPI_Barrier(comm);
  MPI_Issend(&rank, 1, MPI_INT, next, 14, comm, &requests[1]);
  CHECK(MPI_Comm_disconnect(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
  CHECK_EQ(in, previous);
  MPI_Request_get_status_all(2, requests, &flag, MPI_STATUSES_IGNORE);
  CHECK(flag);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void both_ways_at_once(void) {
  enum { elements = 30000 };
  static int out[elements], in[elements];
  for (int i = 0; i < elements; ++i) out[i] = rank + i;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Isendrecv(out, elements, MPI_INT, next, 3, in, elements, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[0]);
  int word = rank;
  MPI_Isendrecv_replace(&word, 1, MPI_INT, previous, 4, next, 4, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, statuses);
  for (int i = 0; i < elements; ++i) CHECK_EQ(in[i], previous + i);
  CHECK(word == next && statuses[0].MPI_SOURCE == previous && statuses[1].MPI_SOURCE == next);
  MPI_Isendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 0, in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], &statuses[0]);
  CHECK_EQ(statuses[0].MPI_SOURCE, MPI_PROC_NULL);
}

static void looking_takes_nothing(void) {
  int in[2] = {-1, -1}, flag = -1, index = -1, count = -1, indices[2];
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Irecv(&in[0], 1, MPI_INT, previous, 21, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&in[1], 1, MPI_INT, previous, 22, MPI_COMM_WORLD, &requests[1]);
  MPI_Send(&rank, 1, MPI_INT, next, 22, MPI_COMM_WORLD);
  do {
    MPI_Request_get_status_any(2, requests, &index, &flag, &statuses[0]);
  } while (!flag);
  CHECK(index == 1 && statuses[0].MPI_TAG == 22);
  MPI_Request_get_status_some(2, requests, &count, indices, statuses);
  CHECK(count == 1 && indices[0] == 1 && statuses[0].MPI_TAG == 22);
  MPI_Request_get_status_all(2, requests, &flag, statuses);
  CHECK_EQ(flag, 0);
  MPI_Barrier(MPI_COMM_WORLD); /* all have seen that the first one is missing */
  MPI_Send(&rank, 1, MPI_INT, next, 21, MPI_COMM_WORLD);
  do {
    MPI_Request_get_status_all(2, requests, &flag, statuses);
  } while (!flag);
  CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
  MPI_Waitall(2, requests, statuses);
  CHECK(in[0] == previous && in[1] == previous);
}

static void errors_of_the_program(void) {
  int class, code, other, found, length, *last, flag;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Add_error_class(&class);
  CHECK(class > MPI_ERR_LASTCODE);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_code(MPI_ERR_IO, &other);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  CHECK(flag && *last == other);
  MPI_Error_class(code, &found);
  CHECK_EQ(found, class);
  MPI_Error_class(other, &found);
  CHECK_EQ(found, MPI_ERR_IO);
  MPI_Error_string(code, text, &length);
  CHECK(length == 0 && text[0] == '\0');
  MPI_Add_error_string(code, "the tea is cold");
  MPI_Error_string(code, text, &length);
  CHECK(strcmp(text, "the tea is cold") == 0 && length == 15);
  CHECK(MPI_Add_error_string(MPI_ERR_IO, "no") == MPI_ERR_ARG); /* the standard's */
  CHECK(MPI_Remove_error_class(class) == MPI_ERR_ARG);          /* its code is still there */
  CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && MPI_Remove_error_code(code) == MPI_SUCCESS);
  CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
  CHECK(MPI_Error_class(class, &found) == MPI_ERR_ARG);
}

static void environment(void) {
  char value[MPI_MAX_INFO_VAL + 1];
  int flag = 0;
  MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL, value, &flag);
  CHECK(flag && atoi(value) == size);
  MPI_Info_get(MPI_INFO_ENV, "command", MPI_MAX_INFO_VAL, value, &flag);
  CHECK(flag && strstr(value, "mpi_requests") != NULL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  buffered();
  generalized();
  failing_callbacks();
  empty_statuses();
  messages_to_nobody();
  matched_before_the_end();
  errors_after_the_end();
  disconnecting();
  both_ways_at_once();
  looking_takes_nothing();
  errors_of_the_program();
  environment();
  MPI_Finalize();
  return 0;
}
