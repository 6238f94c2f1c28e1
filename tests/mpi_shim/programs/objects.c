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

/* `expected`: the argument of the program, for a job of several programs. */
static void application_number(const char* expected) {
  int* number;
  int flag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
  CHECK(flag ? *number == (expected != NULL ? atoi(expected) : 0) : expected == NULL);
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

static void nobody_is_spawned(void) {
  MPI_Comm parent = MPI_COMM_SELF;
  CHECK_EQ(MPI_Comm_get_parent(&parent), MPI_SUCCESS);
  CHECK(parent == MPI_COMM_NULL);
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

/* What a type is made of comes back as it was given; the parts are types of their own. */
static void datatype_contents(void) {
  int integers = -1;
  int addresses = -1;
  int types = -1;
  int combiner = -1;
  CHECK_EQ(MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 0 && addresses == 0 && types == 0 && combiner == MPI_COMBINER_NAMED);

  MPI_Datatype column;
  MPI_Datatype both;
  CHECK_EQ(MPI_Type_vector(3, 2, 5, MPI_INT, &column), MPI_SUCCESS);
  const int lengths[] = {4, 1};
  const MPI_Aint places[] = {-16, 64};
  const MPI_Datatype parts[] = {MPI_DOUBLE, column};
  CHECK_EQ(MPI_Type_create_struct(2, lengths, places, parts, &both), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&column), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_envelope(both, &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 3 && addresses == 2 && types == 2 && combiner == MPI_COMBINER_STRUCT);
  int i[3];
  MPI_Aint a[2];
  MPI_Datatype d[2];
  CHECK_EQ(MPI_Type_get_contents(both, 3, 2, 2, i, a, d), MPI_SUCCESS);
  CHECK(i[0] == 2 && i[1] == 4 && i[2] == 1 && a[0] == -16 && a[1] == 64 && d[0] == MPI_DOUBLE);
  CHECK_EQ(MPI_Type_get_envelope(d[1], &integers, &addresses, &types, &combiner), MPI_SUCCESS);
  CHECK(integers == 3 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_VECTOR);
  MPI_Datatype inner;
  CHECK_EQ(MPI_Type_get_contents(d[1], 3, 0, 1, i, a, &inner), MPI_SUCCESS);
  CHECK(i[0] == 3 && i[1] == 2 && i[2] == 5 && inner == MPI_INT);
  CHECK_EQ(MPI_Type_free(&d[1]), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&both), MPI_SUCCESS);

  /* A count that no int holds is a large count. */
  MPI_Datatype huge;
  MPI_Count n[4] = {-1, -1, -1, -1};
  CHECK_EQ(MPI_Type_contiguous_c((MPI_Count)1 << 40, MPI_BYTE, &huge), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_envelope_c(huge, &n[0], &n[1], &n[2], &n[3], &combiner), MPI_SUCCESS);
  int error_class = -1; /* the other form cannot tell it */
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Type_get_envelope(huge, &integers, &addresses, &types, &combiner), &error_class);
  CHECK_EQ(error_class, MPI_ERR_TYPE);
  error_class = -1;
  MPI_Error_class(MPI_Type_get_contents(huge, 3, 2, 2, i, a, d), &error_class);
  CHECK_EQ(error_class, MPI_ERR_TYPE);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  CHECK(n[0] == 0 && n[1] == 0 && n[2] == 1 && n[3] == 1 && combiner == MPI_COMBINER_CONTIGUOUS);
  MPI_Count count = 0;
  CHECK_EQ(MPI_Type_get_contents_c(huge, 0, 0, 1, 1, i, a, &count, &inner), MPI_SUCCESS);
  CHECK(count == (MPI_Count)1 << 40 && inner == MPI_BYTE);
  CHECK_EQ(MPI_Type_free(&huge), MPI_SUCCESS);

  MPI_Datatype found;
  CHECK_EQ(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &found), MPI_SUCCESS);
  CHECK(found == MPI_DOUBLE_INT);
  CHECK_EQ(MPI_Type_get_value_index(MPI_DOUBLE, MPI_DOUBLE, &found), MPI_SUCCESS);
  CHECK(found == MPI_DATATYPE_NULL);
  CHECK_EQ(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &found), MPI_SUCCESS);
  CHECK(found == MPI_REAL8);
  CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 2, &found) == MPI_SUCCESS && found == MPI_REAL2);
  CHECK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 4, &found) == MPI_SUCCESS && found == MPI_COMPLEX4);
}

static int type_values_deleted = 0;
static int on_type_copy(MPI_Datatype old, int keyval, void* extra, void* in, void* out, int* flag) {
  CHECK(old != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && extra == &type_values_deleted);
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int on_type_delete(MPI_Datatype type, int keyval, void* value, void* extra) {
  CHECK(type != MPI_DATATYPE_NULL && keyval != MPI_KEYVAL_INVALID && value != NULL);
  ++*(int*)extra;
  return MPI_SUCCESS;
}

static void datatype_attributes(void) {
  static char place[2];
  int key = MPI_KEYVAL_INVALID;
  int flag = -1;
  char* value = NULL;
  MPI_Datatype type;
  MPI_Datatype copy;
  CHECK_EQ(MPI_Type_create_keyval(on_type_copy, on_type_delete, &key, &type_values_deleted), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_contiguous(3, MPI_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_attr(type, key, &value, &flag), MPI_SUCCESS);
  CHECK(!flag);
  CHECK_EQ(MPI_Type_set_attr(type, key, place), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_attr(type, key, &value, &flag), MPI_SUCCESS);
  CHECK(flag && value == place);
  CHECK_EQ(MPI_Type_dup(type, &copy), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_get_attr(copy, key, &value, &flag), MPI_SUCCESS);
  CHECK(flag && value == place + 1);
  CHECK_EQ(MPI_Type_delete_attr(copy, key), MPI_SUCCESS);
  CHECK_EQ(type_values_deleted, 1);
  CHECK_EQ(MPI_Type_free_keyval(&key), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&copy), MPI_SUCCESS);
  CHECK_EQ(type_values_deleted, 1);
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
  CHECK_EQ(type_values_deleted, 2);
}

/* A key of one kind of object is none of another, whatever its number. */
static void keys_of_other_objects(void) {
  int type_key = MPI_KEYVAL_INVALID, comm_key = MPI_KEYVAL_INVALID, error_class = -1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
  MPI_Error_class(MPI_Comm_set_attr(MPI_COMM_WORLD, type_key, NULL), &error_class);
  CHECK_EQ(error_class, MPI_ERR_KEYVAL);
  MPI_Error_class(MPI_Type_set_attr(MPI_INT, comm_key, NULL), &error_class);
  CHECK_EQ(error_class, MPI_ERR_KEYVAL);
  CHECK_EQ(MPI_Type_free_keyval(&type_key), MPI_SUCCESS);
  CHECK_EQ(MPI_Comm_free_keyval(&comm_key), MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Errors that no object is named for go to MPI_COMM_SELF's handler; as long as none is set there, to
 * MPI_COMM_WORLD's, as in MPI 3.1. */
static int heard;
static void listen(MPI_Comm* comm, int* code, ...) {
  CHECK(*comm == MPI_COMM_SELF && *code == MPI_ERR_TYPE);
  ++heard;
}
static void errors_without_an_object(void) {
  MPI_Datatype none = MPI_DATATYPE_NULL;
  MPI_Errhandler listener;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK_EQ(MPI_Type_commit(&none), MPI_ERR_TYPE);
  MPI_Comm_create_errhandler(listen, &listener);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, listener);
  CHECK_EQ(MPI_Type_commit(&none), MPI_ERR_TYPE);
  CHECK_EQ(heard, 1);
  MPI_Errhandler_free(&listener);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Errors of an exchange go to the handler of its communicator; those of MPI_COMM_WORLD and MPI_COMM_SELF are fatal. */
static void errors_of_an_exchange(void) {
  MPI_Comm own;
  MPI_Request request;
  int out = 1, in = 0;
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  CHECK_EQ(MPI_Sendrecv(&out, -1, MPI_INT, 0, 0, &in, 1, MPI_INT, 0, 0, own, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
  CHECK_EQ(MPI_Sendrecv_replace(&in, -1, MPI_INT, 0, 0, 0, 0, own, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
  CHECK_EQ(MPI_Isendrecv(&out, 1, MPI_INT, 0, 0, &in, -1, MPI_INT, 0, 0, own, &request), MPI_ERR_COUNT);
  CHECK_EQ(MPI_Isendrecv_replace(&in, -1, MPI_INT, 0, 0, 0, 0, own, &request), MPI_ERR_COUNT);
  MPI_Comm_free(&own);
}

/* A copy callback that refuses leaves no half-made object. */
static int refuse(MPI_Datatype type, int key, void* extra, void* value, void* copy, int* flag) {
  (void)type, (void)key, (void)extra, (void)value, (void)copy, (void)flag;
  return MPI_ERR_OTHER;
}
static void refused_copies(void) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Datatype type, copy = MPI_INT;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_create_keyval(refuse, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
  MPI_Type_set_attr(type, key, NULL);
  CHECK(MPI_Type_dup(type, &copy) != MPI_SUCCESS);
  CHECK(copy == MPI_DATATYPE_NULL);
  MPI_Type_free_keyval(&key);
  MPI_Type_free(&type);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Missing arrays are errors, and no communicator comes of wrong ones. */
static void wrong_arrays(void) {
  MPI_Group group;
  MPI_Comm cart = MPI_COMM_SELF;
  int error_class = -1, place = 0;
  const int dims[2] = {world_size(), world_size() + 1}, periods[2] = {0, 0};
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Group_translate_ranks(group, 1, NULL, group, &place), &error_class);
  CHECK_EQ(error_class, MPI_ERR_ARG);
  MPI_Error_class(MPI_Group_translate_ranks(group, 1, &place, group, NULL), &error_class);
  CHECK_EQ(error_class, MPI_ERR_ARG);
  CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart) != MPI_SUCCESS);
  CHECK(cart == MPI_COMM_NULL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Group_free(&group);
}

/* What MPI_Reduce_local cannot do is an error, not a crash. */
static void reduce_local(void) {
  int in[2] = {1, 2}, inout[2] = {10, 20}, error_class = -1;
  CHECK_EQ(MPI_Reduce_local(in, inout, 2, MPI_INT, MPI_SUM), MPI_SUCCESS);
  CHECK(inout[0] == 11 && inout[1] == 22);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Reduce_local(MPI_IN_PLACE, inout, 2, MPI_INT, MPI_SUM), &error_class);
  CHECK_EQ(error_class, MPI_ERR_BUFFER);
  MPI_Error_class(MPI_Reduce_local(in, MPI_IN_PLACE, 2, MPI_INT, MPI_SUM), &error_class);
  CHECK_EQ(error_class, MPI_ERR_BUFFER);
  MPI_Error_class(MPI_Reduce_local(inout, inout, 2, MPI_INT, MPI_SUM), &error_class);
  CHECK_EQ(error_class, MPI_ERR_BUFFER);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The functions that older programs call are inline over today's, which check the arguments. */
static void removed_functions(void) {
  MPI_Datatype type;
  MPI_Aint upper = -1;
  MPI_Type_create_resized(MPI_INT, -8, 24, &type);
  MPI_Type_ub(type, &upper);
  CHECK_EQ(upper, 16);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK_EQ(MPI_Type_ub(type, NULL), MPI_ERR_ARG);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&type);
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
  errors_without_an_object();
  errors_of_an_exchange();
  infos();
  attributes();
  application_number(argv[1]);
  memory();
  integers();
  names();
  nobody_is_spawned();
  datatype_contents();
  datatype_attributes();
  refused_copies();
  keys_of_other_objects();
  reduce_local();
  wrong_arrays();
  removed_functions();
  MPI_Finalize();
  MPI_Finalized(&flag);
  return flag ? 0 : 1;
}
