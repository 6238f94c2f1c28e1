/* SPDX-License-Identifier: Apache-2.0
 * Info objects, attributes, memory, handles as integers, names, what MPI says about itself. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

static void infos(void) {
  MPI_Info info, copy;
  int flag = 0, n = 0, length = 0;
  char value[64], key[MPI_MAX_INFO_KEY];
  MPI_Info_create(&info);
  MPI_Info_set(info, "first", "1");
  MPI_Info_set(info, "second", "zwei");
  MPI_Info_set(info, "first", "one");
  MPI_Info_get_nkeys(info, &n);
  CHECK_EQ(n, 2);
  MPI_Info_get_nthkey(info, 1, key);
  CHECK(strcmp(key, "second") == 0);
  MPI_Info_dup(info, &copy);
  MPI_Info_delete(info, "first");
  MPI_Info_get(info, "first", 63, value, &flag);
  CHECK(!flag);
  MPI_Info_get(copy, "first", 63, value, &flag);
  CHECK(flag && strcmp(value, "one") == 0);
  length = 3;
  MPI_Info_get_string(copy, "second", &length, value, &flag);
  CHECK(flag && strcmp(value, "zw") == 0);
  CHECK_EQ(length, 5);
  MPI_Info_free(&info);
  MPI_Info_free(&copy);
  CHECK(info == MPI_INFO_NULL);
}

static int deleted, copied;
static int copy_it(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm;
  (void)key;
  copied += *(int*)extra;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int delete_it(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm;
  (void)key;
  (void)value;
  deleted += *(int*)extra;
  return MPI_SUCCESS;
}

static void attributes(void) {
  int* tag_ub;
  int flag = 0, key, extra = 1;
  char text[10];
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag);
  CHECK(flag && *tag_ub >= 32767);
  MPI_Comm_create_keyval(copy_it, delete_it, &key, &extra);
  MPI_Comm comm, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  void* value = NULL;
  MPI_Comm_get_attr(comm, key, &value, &flag);
  CHECK(!flag);
  MPI_Comm_set_attr(comm, key, text);
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_get_attr(copy, key, &value, &flag);
  CHECK(flag && value == text + 1);
  CHECK_EQ(copied, 1);
  MPI_Comm_free(&copy);
  CHECK_EQ(deleted, 1);
  MPI_Comm_delete_attr(comm, key);
  CHECK_EQ(deleted, 2);
  MPI_Comm_free_keyval(&key);
  CHECK_EQ(key, MPI_KEYVAL_INVALID);
  MPI_Comm_free(&comm);
  CHECK_EQ(deleted, 2);
}

static void memory(void) {
  double* values = NULL;
  MPI_Alloc_mem(1000 * sizeof *values, MPI_INFO_NULL, &values);
  for (int i = 0; i < 1000; ++i) values[i] = i;
  MPI_Bcast(values, 1000, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  CHECK(MPI_Free_mem(values) == MPI_SUCCESS);
}

static void integers(void) {
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int number = MPI_Comm_toint(comm);
  CHECK(number > 0 && MPI_Comm_fromint(number) == comm);
  MPI_Comm_free(&comm);
}

static void names(void) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = 0;
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  CHECK(strcmp(name, "MPI_COMM_WORLD") == 0);
  MPI_Type_get_name(MPI_DOUBLE, name, &length);
  CHECK(strcmp(name, "MPI_DOUBLE") == 0);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_get_name(comm, name, &length);
  CHECK_EQ(length, 0);
  MPI_Comm_set_name(comm, "mine");
  MPI_Comm_get_name(comm, name, &length);
  CHECK(strcmp(name, "mine") == 0);
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  int flag = 0, provided = -1;
  MPI_Initialized(&flag);
  if (flag) return 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  CHECK_EQ(provided, MPI_THREAD_FUNNELED);
  MPI_Initialized(&flag);
  CHECK(flag);
  MPI_Is_thread_main(&flag);
  CHECK(flag);
  infos();
  attributes();
  memory();
  integers();
  names();
  MPI_Finalize();
  MPI_Finalized(&flag);
  return flag ? 0 : 1;
}
