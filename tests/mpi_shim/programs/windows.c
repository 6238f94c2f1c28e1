/* SPDX-License-Identifier: Apache-2.0
 * Windows of all flavours, checked with any number of ranks and over any transport: attributes, all kinds of
 * synchronisation, dynamic windows, and what is wrong and how it is told.  Accesses: window_accesses.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "window.h"

enum { kCount = 1000 };

static void attributes(int flavour) {
  const int expected[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED};
  int* base = NULL;
  MPI_Win win = make_window(flavour, (my_rank() + 1) * 16, 4, &base);
  void* value = NULL;
  int flag = 0;
  CHECK_EQ(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag), MPI_SUCCESS);
  CHECK(flag && value == base);
  CHECK_EQ(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag), MPI_SUCCESS);
  CHECK_EQ(*(MPI_Aint*)value, (my_rank() + 1) * 16);
  CHECK_EQ(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag), MPI_SUCCESS);
  CHECK_EQ(*(int*)value, 4);
  CHECK_EQ(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag), MPI_SUCCESS);
  CHECK_EQ(*(int*)value, expected[flavour]);
  CHECK_EQ(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag), MPI_SUCCESS);
  CHECK_EQ(*(int*)value, MPI_WIN_UNIFIED);

  MPI_Group group;
  MPI_Group world;
  int same = MPI_UNEQUAL;
  CHECK_EQ(MPI_Win_get_group(win, &group), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &world), MPI_SUCCESS);
  CHECK_EQ(MPI_Group_compare(group, world, &same), MPI_SUCCESS);
  CHECK_EQ(same, MPI_IDENT);
  CHECK_EQ(MPI_Group_free(&group), MPI_SUCCESS);
  CHECK_EQ(MPI_Group_free(&world), MPI_SUCCESS);

  char name[MPI_MAX_OBJECT_NAME] = "?";
  int length = -1;
  CHECK_EQ(MPI_Win_get_name(win, name, &length), MPI_SUCCESS);
  CHECK_EQ(length, 0);
  CHECK_EQ(MPI_Win_set_name(win, "shelf"), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_get_name(win, name, &length), MPI_SUCCESS);
  CHECK(length == 5 && strcmp(name, "shelf") == 0);

  MPI_Info info;
  char text[16] = "";
  CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_set(info, "accumulate_ordering", "none"), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_set(info, "unlocked_knows", "this"), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_set_info(win, info), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_get_info(win, &info), MPI_SUCCESS);
  CHECK_EQ(MPI_Info_get(info, "accumulate_ordering", 15, text, &flag), MPI_SUCCESS);
  CHECK(flag && strcmp(text, "none") == 0);
  CHECK_EQ(MPI_Info_get(info, "unlocked_knows", 15, text, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
  end_window(flavour, win, base);
}

static int deleted_values = 0;
static int on_delete(MPI_Win win, int keyval, void* value, void* extra) {
  CHECK(win != MPI_WIN_NULL && keyval != MPI_KEYVAL_INVALID && extra == &deleted_values);
  deleted_values += *(int*)value;
  return MPI_SUCCESS;
}

/* Only ranks of even number have memory, each of another size.  All ranks put into all of it. */
static void unequal_sizes(int flavour) {
  const int mine = my_rank() % 2 == 0 ? my_rank() + world_size() : 0;
  int* base = NULL;
  MPI_Win win = make_window(flavour, mine * (int)sizeof(int), sizeof(int), &base);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  const int value = 100 + my_rank();
  for (int target = 0; target < world_size(); target += 2) {
    CHECK_EQ(MPI_Put(&value, 1, MPI_INT, target, target + my_rank(), 1, MPI_INT, win), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int rank = 0; mine != 0 && rank < world_size(); ++rank) CHECK_EQ(base[my_rank() + rank], 100 + rank);
  CHECK_EQ(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_SUCCESS);
  for (int target = 1; target < world_size(); target += 2) {
    CHECK_EQ(MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  end_window(flavour, win, base);
}

static void keys(void) {
  int* base = NULL;
  MPI_Win win = make_window(1, 16, 1, &base);
  int key = MPI_KEYVAL_INVALID;
  int seven = 7;
  int* value = NULL;
  int flag = 1;
  CHECK_EQ(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, &deleted_values), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_get_attr(win, key, &value, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Win_set_attr(win, key, &seven), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_get_attr(win, key, &value, &flag), MPI_SUCCESS);
  CHECK(flag && value == &seven);
  CHECK_EQ(MPI_Win_free_keyval(&key), MPI_SUCCESS);
  CHECK_EQ(key, MPI_KEYVAL_INVALID);
  end_window(1, win, base);
  CHECK_EQ(deleted_values, 7);
}

/* Every rank puts its pattern to the next one and gets the previous one's. */
static void fences(int flavour) {
  const int rank = my_rank();
  const int size = world_size();
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  unsigned char* base = NULL;
  MPI_Win win = make_window(flavour, 2 * kCount, 1, &base);
  unsigned char out[kCount];
  unsigned char in[kCount];
  memset(base, 0, 2 * kCount);
  for (int i = 0; i < kCount; ++i) out[i] = pattern(i, rank);
  CHECK_EQ(MPI_Win_fence(MPI_MODE_NOPRECEDE, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, kCount, MPI_BYTE, next, 0, kCount, MPI_BYTE, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, 0, MPI_BYTE, next, 0, 0, MPI_BYTE, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, kCount, MPI_BYTE, MPI_PROC_NULL, 0, kCount, MPI_BYTE, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) CHECK_EQ(base[i], pattern(i, previous));
  CHECK_EQ(MPI_Get(in, kCount, MPI_BYTE, next, 0, kCount, MPI_BYTE, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), MPI_SUCCESS);
  for (int i = 0; i < kCount; ++i) CHECK_EQ(in[i], pattern(i, rank));
  end_window(flavour, win, base);
}

/* Exclusive locks keep read-modify-write together; shared ones let readers in. */
static void locks(int flavour) {
  const int size = world_size();
  int* base = NULL;
  MPI_Win win = make_window(flavour, 8 * sizeof(int), sizeof(int), &base);
  memset(base, 0, 8 * sizeof(int));
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  for (int i = 0; i < 40; ++i) {
    const int target = i % size;
    int values[8];
    CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Get(values, 8, MPI_INT, target, 0, 8, MPI_INT, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush_local(target, win), MPI_SUCCESS);
    for (int k = 0; k < 8; ++k) CHECK_EQ(values[k], values[0]);
    for (int k = 0; k < 8; ++k) ++values[k];
    CHECK_EQ(MPI_Put(values, 8, MPI_INT, target, 0, 8, MPI_INT, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_unlock(target, win), MPI_SUCCESS);

    CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_SUCCESS);
    MPI_Request request;
    CHECK_EQ(MPI_Rget(values, 8, MPI_INT, target, 0, 8, MPI_INT, win, &request), MPI_SUCCESS);
    CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    for (int k = 0; k < 8; ++k) CHECK_EQ(values[k], values[0]);
    CHECK_EQ(MPI_Win_unlock(target, win), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  int expected = 0;
  for (int i = 0; i < 40; ++i) expected += i % size == my_rank() ? size : 0;
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank(), 0, win), MPI_SUCCESS);
  CHECK_EQ(base[7], expected);
  CHECK_EQ(MPI_Win_unlock(my_rank(), win), MPI_SUCCESS);
  end_window(flavour, win, base);
}

/* MPI_Win_lock_all takes a lock of another host when it is needed: rank 0 has nothing to do with rank 2 while rank 1
 * holds that lock, and rank 1 gives it up only when rank 0 is past the call. */
static void late_locks(int flavour) {
  if (world_size() < 3) return;
  const int rank = my_rank();
  int* base = NULL;
  MPI_Win win = make_window(flavour, sizeof(int), sizeof(int), &base);
  *base = 0;
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  if (rank == 1) CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  const int mine = 1 + rank;
  if (rank == 0) {
    CHECK_EQ(MPI_Win_lock_all(0, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(2, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Send(&mine, 1, MPI_INT, 1, 5, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQ(MPI_Accumulate(&mine, 1, MPI_INT, 2, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS); /* waits for rank 1 */
    CHECK_EQ(MPI_Win_unlock_all(win), MPI_SUCCESS);
  } else if (rank == 1) {
    int theirs = 0;
    CHECK_EQ(MPI_Recv(&theirs, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQ(MPI_Put(&mine, 1, MPI_INT, 2, 0, 1, MPI_INT, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_unlock(2, win), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  if (rank == 2) {
    CHECK_EQ(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win), MPI_SUCCESS);
    CHECK_EQ(*base, 1 + 2);
    CHECK_EQ(MPI_Win_unlock(2, win), MPI_SUCCESS);
  }
  end_window(flavour, win, base);
}

/* Rank 0 exposes to all others, which write their slot; several epochs in a row, ended by wait or by test. */
static void post_start(int flavour) {
  const int size = world_size();
  int* base = NULL;
  MPI_Win win = make_window(flavour, size * sizeof(int), sizeof(int), &base);
  MPI_Group world;
  MPI_Group peers;
  const int zero = 0;
  CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &world), MPI_SUCCESS);
  if (my_rank() == 0) {
    CHECK_EQ(MPI_Group_excl(world, 1, &zero, &peers), MPI_SUCCESS);
  } else {
    CHECK_EQ(MPI_Group_incl(world, 1, &zero, &peers), MPI_SUCCESS);
  }
  for (int epoch = 0; epoch < 20; ++epoch) {
    if (my_rank() == 0) {
      for (int i = 0; i < size; ++i) base[i] = -1;
      CHECK_EQ(MPI_Win_post(peers, 0, win), MPI_SUCCESS);
      if (epoch % 2 == 0) {
        CHECK_EQ(MPI_Win_wait(win), MPI_SUCCESS);
      } else {
        int over = 0;
        while (!over) CHECK_EQ(MPI_Win_test(win, &over), MPI_SUCCESS);
      }
      for (int i = 1; i < size; ++i) CHECK_EQ(base[i], 100 * epoch + i);
    } else {
      const int value = 100 * epoch + my_rank();
      CHECK_EQ(MPI_Win_start(peers, 0, win), MPI_SUCCESS);
      CHECK_EQ(MPI_Put(&value, 1, MPI_INT, 0, my_rank(), 1, MPI_INT, win), MPI_SUCCESS);
      CHECK_EQ(MPI_Win_complete(win), MPI_SUCCESS);
    }
  }
  CHECK_EQ(MPI_Group_free(&world), MPI_SUCCESS);
  if (size > 1) CHECK_EQ(MPI_Group_free(&peers), MPI_SUCCESS);
  end_window(flavour, win, base);
}

static void dynamic_windows(void) {
  const int next = (my_rank() + 1) % world_size();
  const int previous = (my_rank() + world_size() - 1) % world_size();
  MPI_Win win;
  int memory[100];
  MPI_Aint mine;
  MPI_Aint theirs;
  CHECK_EQ(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_attach(win, memory, sizeof memory), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_address(memory, &mine), MPI_SUCCESS);
  CHECK_EQ(
      MPI_Sendrecv(&mine, 1, MPI_AINT, previous, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      MPI_SUCCESS);
  for (int i = 0; i < 100; ++i) memory[i] = -1;
  int out[50];
  for (int i = 0; i < 50; ++i) out[i] = my_rank() + i;
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, 50, MPI_INT, next, MPI_Aint_add(theirs, 40), 50, MPI_INT, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < 100; ++i) CHECK_EQ(memory[i], i >= 10 && i < 60 ? previous + i - 10 : -1);
  /* Every other element backwards: the type has absolute addresses in its blocks. */
  MPI_Datatype type;
  CHECK_EQ(MPI_Type_vector(20, 1, -2, MPI_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&type), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, 20, MPI_INT, next, MPI_Aint_add(theirs, 99 * sizeof(int)), 1, type, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    CHECK_EQ(memory[99 - 2 * i], previous + i);
    CHECK_EQ(memory[98 - 2 * i], 98 - 2 * i < 60 ? previous + 88 - 2 * i : -1);
  }
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock_all(0, win), MPI_SUCCESS);
  const int one = 1;
  int before = -2;
  CHECK_EQ(MPI_Fetch_and_op(&one, &before, MPI_INT, next, theirs, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush(next, win), MPI_SUCCESS);
  CHECK_EQ(before, -1);
  CHECK_EQ(MPI_Win_unlock_all(win), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(memory[0], 0);
  /* What is not attached is refused: at once for memory here, by the target and at the synchronisation elsewhere. */
  CHECK_EQ(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_detach(win, memory), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_detach(win, memory), MPI_ERR_RMA_ATTACH);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win), MPI_SUCCESS);
  const int at_once = MPI_Put(out, 1, MPI_INT, next, theirs, 1, MPI_INT, win);
  const int at_the_end = MPI_Win_unlock(next, win);
  CHECK_EQ(at_once, next == my_rank() ? MPI_ERR_RMA_RANGE : MPI_SUCCESS);
  CHECK_EQ(at_the_end, next == my_rank() ? MPI_SUCCESS : MPI_ERR_RMA_RANGE);
  CHECK_EQ(memory[0], 0);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

/* All ranks of `comm` run on one host. */
static void shared_memory(MPI_Comm comm) {
  int rank = -1;
  int size = 0;
  CHECK_EQ(MPI_Comm_rank(comm, &rank), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_size(comm, &size), MPI_SUCCESS);
  int* mine = NULL;
  MPI_Win win;
  const MPI_Aint own_bytes = (rank + 1) * (MPI_Aint)sizeof(int);
  CHECK_EQ(MPI_Win_allocate_shared(own_bytes, sizeof(int), MPI_INFO_NULL, comm, &mine, &win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i <= rank; ++i) mine[i] = 100 * rank + i;
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  int* first = NULL;
  for (int other = 0; other < size; ++other) {
    MPI_Aint bytes = -1;
    int unit = -1;
    int* theirs = NULL;
    CHECK_EQ(MPI_Win_shared_query(win, other, &bytes, &unit, &theirs), MPI_SUCCESS);
    CHECK_EQ(bytes, (other + 1) * sizeof(int));
    CHECK_EQ(unit, sizeof(int));
    for (int i = 0; i <= other; ++i) CHECK_EQ(theirs[i], 100 * other + i);
    if (other == 0) first = theirs;
    CHECK(theirs == first + other * (other + 1) / 2); /* one after the other */
    if (other == rank) CHECK(theirs == mine);
  }
  int* lowest = NULL;
  MPI_Aint bytes = -1;
  int unit = -1;
  CHECK_EQ(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &lowest), MPI_SUCCESS);
  CHECK(lowest == first);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

/* Only the last rank has memory, each rank has another unit.  All ranks of `comm` run on one host. */
static void shared_memory_of_one(MPI_Comm comm) {
  int rank = -1, size = 0, unit = -1;
  CHECK_EQ(MPI_Comm_rank(comm, &rank), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_size(comm, &size), MPI_SUCCESS);
  void *mine, *theirs;
  MPI_Aint bytes = -1;
  MPI_Win win;
  CHECK_EQ(MPI_Win_allocate_shared(rank == size - 1 ? 64 : 0, 2 + rank, MPI_INFO_NULL, comm, &mine, &win), MPI_SUCCESS);
  for (int other = 0; other < size; ++other) {
    CHECK_EQ(MPI_Win_shared_query(win, other, &bytes, &unit, &theirs), MPI_SUCCESS);
    CHECK_EQ(bytes, other == size - 1 ? 64 : 0);
    CHECK_EQ(unit, 2 + other);
    CHECK((theirs != NULL) == (other == size - 1));
  }
  CHECK_EQ(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &theirs), MPI_SUCCESS);
  CHECK(bytes == 64 && unit == size + 1 && theirs != NULL);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
}

static int handled = 0;
static void on_error(MPI_Win* win, int* code, ...) {
  CHECK(*win != MPI_WIN_NULL);
  handled = *code;
}

static void mistakes(void) {
  int* base = NULL;
  int value = 1;
  MPI_Win win = make_window(1, 10 * sizeof(int), sizeof(int), &base);
  MPI_Errhandler handler;
  CHECK_EQ(MPI_Win_get_errhandler(win, &handler), MPI_SUCCESS);
  CHECK(handler == MPI_ERRORS_ARE_FATAL);
  CHECK_EQ(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_SUCCESS);
  /* No epoch is open. */
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_lock(12345, 0, 0, win), MPI_ERR_LOCKTYPE);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, world_size(), 0, win), MPI_ERR_RANK);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1, win), MPI_ERR_ASSERT);

  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT, 0, 10, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
  CHECK_EQ(MPI_Put(&value, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
  CHECK_EQ(MPI_Put(&value, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
  CHECK_EQ(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_MINLOC, win), MPI_ERR_OP);
  CHECK_EQ(MPI_Accumulate(&value, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win), MPI_SUCCESS); /* of no element */
  CHECK_EQ(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
  double real = 0;
  CHECK_EQ(MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
  CHECK_EQ(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(MPI_Win_unlock(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_attach(win, base, 4), MPI_ERR_RMA_FLAVOR);

  CHECK_EQ(MPI_Win_create_errhandler(on_error, &handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_set_errhandler(win, handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
  CHECK_EQ(handled, MPI_ERR_RMA_SYNC);
  end_window(1, win, base);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  const int is_permitted = may_share_memory();
  const int last = flavours(is_permitted);
  for (int flavour = 0; flavour < last; ++flavour) {
    attributes(flavour);
    unequal_sizes(flavour);
    fences(flavour);
    locks(flavour);
    if (!is_permitted) late_locks(flavour);
    post_start(flavour);
  }
  keys();
  dynamic_windows();
  if (is_permitted || world_size() == 1) {
    MPI_Comm host = MPI_COMM_NULL;
    CHECK_EQ(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), MPI_SUCCESS);
    shared_memory(host);
    shared_memory_of_one(host);
    CHECK_EQ(MPI_Comm_free(&host), MPI_SUCCESS);
  }
  mistakes();
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
