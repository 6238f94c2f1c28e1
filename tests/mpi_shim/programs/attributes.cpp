// SPDX-License-Identifier: Apache-2.0
// Attributes, their keys and error handlers: used by several threads at once on the same objects; callbacks that fail
// or change attributes themselves; keys that there are not.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/mpi_shim/programs/check.h"

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 500;

std::atomic<int> deletions{0};
int count_deletion(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}
int count_window_deletion(MPI_Win, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}
int count_type_deletion(MPI_Datatype, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}
void ignore_error(MPI_Comm*, int*, ...) {}
void ignore_window_error(MPI_Win*, int*, ...) {}

/// Keys and values of the thread's own, on objects that all threads share; one key that all of them set.
void use_shared_objects(MPI_Win win, MPI_Datatype type, int common) {
  int place = 0;
  for (int i = 0; i < kRounds; ++i) {
    int key = MPI_KEYVAL_INVALID;
    CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &key, nullptr) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &place) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, common, &place) == MPI_SUCCESS);
    void* value = nullptr;
    int flag = 0;
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag) == MPI_SUCCESS);
    CHECK(flag != 0 && value == &place);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, common, &value, &flag) == MPI_SUCCESS);
    CHECK(flag != 0);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag) == MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&key) == MPI_SUCCESS);

    CHECK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, count_window_deletion, &key, nullptr) == MPI_SUCCESS);
    CHECK(MPI_Win_set_attr(win, key, &place) == MPI_SUCCESS);
    CHECK(MPI_Win_get_attr(win, key, &value, &flag) == MPI_SUCCESS);
    CHECK(flag != 0 && value == &place);
    CHECK(MPI_Win_delete_attr(win, key) == MPI_SUCCESS);
    CHECK(MPI_Win_free_keyval(&key) == MPI_SUCCESS);

    CHECK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_type_deletion, &key, nullptr) == MPI_SUCCESS);
    CHECK(MPI_Type_set_attr(type, key, &place) == MPI_SUCCESS);
    CHECK(MPI_Type_get_attr(type, key, &value, &flag) == MPI_SUCCESS);
    CHECK(flag != 0 && value == &place);
    CHECK(MPI_Type_delete_attr(type, key) == MPI_SUCCESS);
    CHECK(MPI_Type_free_keyval(&key) == MPI_SUCCESS);

    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    CHECK(MPI_Comm_create_errhandler(ignore_error, &handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(MPI_Send(&place, 1, MPI_INT, -7, 0, MPI_COMM_WORLD) == MPI_ERR_RANK);
    CHECK(MPI_Win_create_errhandler(ignore_window_error, &handler) == MPI_SUCCESS);
    CHECK(MPI_Win_set_errhandler(win, handler) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(MPI_Win_unlock(0, win) == MPI_ERR_RMA_SYNC);
  }
}

void threads_share_objects() {
  int memory = 0;
  MPI_Win win = MPI_WIN_NULL;
  MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(3, MPI_INT, &type);
  int common = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &common, nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(use_shared_objects, win, type, common);
  for (std::thread& thread : threads) thread.join();
  // Each value has been deleted once, but for the last one of the common key.
  CHECK_EQ(deletions.load(), kThreads * kRounds * 4 - 1);
  CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, common) == MPI_SUCCESS);
  CHECK_EQ(deletions.load(), kThreads * kRounds * 4);
  MPI_Comm_free_keyval(&common);
  MPI_Type_free(&type);
  MPI_Win_free(&win);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

bool refuses = true;
int refused = 0;
int refuse_deletion(MPI_Comm, int, void*, void*) {
  if (!refuses) return MPI_SUCCESS;
  ++refused;
  return MPI_ERR_OTHER;
}
int refuse_copy(MPI_Comm, int, void*, void*, void*, int*) { return MPI_ERR_OTHER; }

/// An object whose delete callback fails stays as it is, with all attributes that are not deleted yet.
void refused_deletions() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int first = MPI_KEYVAL_INVALID;
  int second = MPI_KEYVAL_INVALID;
  int third = MPI_KEYVAL_INVALID;
  int value = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &first, nullptr);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_deletion, &second, nullptr);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &third, nullptr);
  for (const int key : {first, second, third}) MPI_Comm_set_attr(comm, key, &value);
  deletions = 0;
  MPI_Comm same = comm;
  CHECK_EQ(MPI_Comm_free(&comm), MPI_ERR_OTHER);
  CHECK(comm == same);
  CHECK(deletions == 1 && refused == 1);
  void* found = nullptr;
  int flag = -1;
  MPI_Comm_get_attr(comm, first, &found, &flag);
  CHECK_EQ(flag, 1);
  MPI_Comm_get_attr(comm, second, &found, &flag);
  CHECK_EQ(flag, 1);
  MPI_Comm_get_attr(comm, third, &found, &flag);
  CHECK_EQ(flag, 0);
  CHECK_EQ(MPI_Comm_set_attr(comm, second, &found), MPI_ERR_OTHER);
  MPI_Comm_get_attr(comm, second, &found, &flag);
  CHECK(flag == 1 && found == &value);
  refuses = false;
  CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
  CHECK_EQ(deletions.load(), 2);
  MPI_Comm_free_keyval(&first);
  MPI_Comm_free_keyval(&second);
  MPI_Comm_free_keyval(&third);
}

int earlier = MPI_KEYVAL_INVALID;
int delete_the_earlier(MPI_Comm comm, int, void*, void*) {
  CHECK(MPI_Comm_delete_attr(comm, earlier) == MPI_SUCCESS);
  return MPI_SUCCESS;
}

/// A delete callback deletes an attribute that stands before its own.
void deletions_in_deletions() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int own = MPI_KEYVAL_INVALID;
  int last = MPI_KEYVAL_INVALID;
  int value = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &earlier, nullptr);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_the_earlier, &own, nullptr);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &last, nullptr);
  for (const int key : {earlier, own, last}) MPI_Comm_set_attr(comm, key, &value);
  deletions = 0;
  CHECK(MPI_Comm_delete_attr(comm, own) == MPI_SUCCESS);
  CHECK_EQ(deletions.load(), 1);
  void* found = nullptr;
  int flag = -1;
  MPI_Comm_get_attr(comm, earlier, &found, &flag);
  CHECK_EQ(flag, 0);
  MPI_Comm_get_attr(comm, own, &found, &flag);
  CHECK_EQ(flag, 0);
  MPI_Comm_get_attr(comm, last, &found, &flag);
  CHECK(flag == 1 && found == &value);
  MPI_Comm_free(&comm);
  CHECK_EQ(deletions.load(), 2);
  MPI_Comm_free_keyval(&earlier);
  MPI_Comm_free_keyval(&own);
  MPI_Comm_free_keyval(&last);
}

/// What was copied before a copy callback fails is deleted again.
void refused_copies() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int copied = MPI_KEYVAL_INVALID;
  int not_copied = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_deletion, &copied, nullptr);
  MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &not_copied, nullptr);
  for (const int key : {copied, not_copied}) MPI_Comm_set_attr(comm, key, nullptr);
  deletions = 0;
  CHECK_EQ(MPI_Comm_dup(comm, &copy), MPI_ERR_OTHER);
  CHECK(copy == MPI_COMM_NULL && deletions == 1);
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK_EQ(MPI_Comm_idup(comm, &copy, &request), MPI_ERR_OTHER);
  CHECK_EQ(deletions.load(), 2);
  MPI_Comm_free(&comm);
  CHECK_EQ(deletions.load(), 3);
  MPI_Comm_free_keyval(&copied);
  MPI_Comm_free_keyval(&not_copied);
}

void keys_that_there_are_not() {
  void* value = nullptr;
  int flag = -1;
  for (const int key : {-99, MPI_KEYVAL_INVALID, 7, 1 << 20}) {
    CHECK_EQ(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_EQ(MPI_Attr_get(MPI_COMM_WORLD, key, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_EQ(MPI_Comm_delete_attr(MPI_COMM_WORLD, key), MPI_ERR_KEYVAL);
    CHECK_EQ(MPI_Type_get_attr(MPI_INT, key, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_EQ(MPI_Type_delete_attr(MPI_INT, key), MPI_ERR_KEYVAL);
  }
}

void wrong_handlers() {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Win_create_errhandler(ignore_window_error, &handler);
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler), MPI_ERR_ERRHANDLER);
  MPI_Errhandler_free(&handler);
}

int is_main_thread() {
  int flag = -1;
  MPI_Is_thread_main(&flag);
  return flag;
}

}  // namespace

/// MPI is started by a thread that is not the process's first.
int main(int argc, char** argv) {
  MPI_Errhandler early = MPI_ERRHANDLER_NULL;
  CHECK(MPI_Comm_create_errhandler(ignore_error, &early) == MPI_SUCCESS);
  int provided = -1;
  std::thread{[&] {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK_EQ(is_main_thread(), 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, early);
  }}.join();
  CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
  CHECK_EQ(is_main_thread(), 0);
  threads_share_objects();
  refused_deletions();
  deletions_in_deletions();
  refused_copies();
  keys_that_there_are_not();
  wrong_handlers();
  MPI_Finalize();
  CHECK(MPI_Errhandler_free(&early) == MPI_SUCCESS);
  MPI_Errhandler late = MPI_ERRHANDLER_NULL;
  CHECK(MPI_Win_create_errhandler(ignore_window_error, &late) == MPI_SUCCESS);
  CHECK(MPI_Errhandler_free(&late) == MPI_SUCCESS && late == MPI_ERRHANDLER_NULL);
  return 0;
}
