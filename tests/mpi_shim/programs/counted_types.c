/* SPDX-License-Identifier: Apache-2.0
 * Every constructor of datatypes, with int and with MPI_Count arguments: which elements it takes in which order, its
 * size and bounds, what it says it is made of; and packing, in both representations. */
#include "tests/mpi_shim/programs/check.h"
#include "tests/mpi_shim/programs/counts.h"

enum { kInts = 64 };
static int values[kInts];

/* `type` over `values` takes the ints at these indices, in this order; consumes the type. */
static void check_takes(MPI_Datatype type, int n, const int* indices) {
  int packed[kInts], back[kInts];
  Count bytes = -1, position_check = -1;
  TypePlace position = 0;
  CHECK_EQ(MPI_Type_commit(&type), MPI_SUCCESS);
  CHECK_EQ(COUNTED(Type_size)(type, &bytes), MPI_SUCCESS);
  CHECK_EQ(bytes, (long long)sizeof(int) * n);
  CHECK_EQ(COUNTED(Pack_size)(1, type, MPI_COMM_WORLD, &position_check), MPI_SUCCESS);
  CHECK(position_check >= bytes);
  CHECK_EQ(COUNTED(Pack)(values, 1, type, packed, (Count)sizeof packed, &position, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(position, bytes);
  for (int i = 0; i < n; ++i) CHECK_EQ(packed[i], values[indices[i]]);
  for (int i = 0; i < kInts; ++i) back[i] = -1;
  position = 0;
  CHECK_EQ(COUNTED(Unpack)(packed, bytes, &position, back, 1, type, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(position, bytes);
  for (int i = 0; i < n; ++i) {
    CHECK_EQ(back[indices[i]], values[indices[i]]);
    back[indices[i]] = -1;
  }
  for (int i = 0; i < kInts; ++i) CHECK_EQ(back[i], -1); /* and nothing else was written */
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
}

static void check_bounds(MPI_Datatype type, long long lb, long long extent, long long true_lb, long long true_extent) {
  BytePlace low = -1, reach = -1;
  CHECK_EQ(COUNTED(Type_get_extent)(type, &low, &reach), MPI_SUCCESS);
  CHECK_EQ(low, lb);
  CHECK_EQ(reach, extent);
  CHECK_EQ(COUNTED(Type_get_true_extent)(type, &low, &reach), MPI_SUCCESS);
  CHECK_EQ(low, true_lb);
  CHECK_EQ(reach, true_extent);
  MPI_Count wide_low = -1, wide_reach = -1;
  CHECK_EQ(MPI_Type_get_extent_x(type, &wide_low, &wide_reach), MPI_SUCCESS);
  CHECK(wide_low == lb && wide_reach == extent);
  CHECK_EQ(MPI_Type_get_true_extent_x(type, &wide_low, &wide_reach), MPI_SUCCESS);
  CHECK(wide_low == true_lb && wide_reach == true_extent);
}

static void constructors(void) {
  enum { kInt = sizeof(int) };
  MPI_Datatype type;
  MPI_Count large_size = -1;
  CHECK_EQ(COUNTED(Type_contiguous)(3, MPI_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_size_x(type, &large_size), MPI_SUCCESS);
  CHECK_EQ(large_size, 3 * kInt);
  check_bounds(type, 0, 3 * kInt, 0, 3 * kInt);
  check_takes(type, 3, (const int[]){0, 1, 2});

  CHECK_EQ(COUNTED(Type_vector)(3, 2, 5, MPI_INT, &type), MPI_SUCCESS);
  check_bounds(type, 0, 12 * kInt, 0, 12 * kInt);
  check_takes(type, 6, (const int[]){0, 1, 5, 6, 10, 11});
  CHECK_EQ(COUNTED(Type_create_hvector)(2, 1, 7 * kInt, MPI_INT, &type), MPI_SUCCESS);
  check_takes(type, 2, (const int[]){0, 7});

  const Count lengths[] = {2, 0, 1};
  const TypePlace places[] = {9, 4, 1};
  const BytePlace bytes[] = {9 * kInt, 4 * kInt, 1 * kInt};
  const int indexed[] = {9, 10, 1};
  CHECK_EQ(COUNTED(Type_indexed)(3, lengths, places, MPI_INT, &type), MPI_SUCCESS);
  check_bounds(type, 1 * kInt, 10 * kInt, 1 * kInt, 10 * kInt);
  check_takes(type, 3, indexed);
  CHECK_EQ(COUNTED(Type_create_hindexed)(3, lengths, bytes, MPI_INT, &type), MPI_SUCCESS);
  check_takes(type, 3, indexed);
  CHECK_EQ(COUNTED(Type_create_indexed_block)(3, 2, places, MPI_INT, &type), MPI_SUCCESS);
  check_takes(type, 6, (const int[]){9, 10, 4, 5, 1, 2});
  CHECK_EQ(COUNTED(Type_create_hindexed_block)(3, 1, bytes, MPI_INT, &type), MPI_SUCCESS);
  check_takes(type, 3, (const int[]){9, 4, 1});

  MPI_Datatype pair;
  CHECK_EQ(COUNTED(Type_contiguous)(2, MPI_INT, &pair), MPI_SUCCESS);
  const MPI_Datatype parts[] = {MPI_INT, MPI_CHAR, pair};
  CHECK_EQ(COUNTED(Type_create_struct)(3, lengths, bytes, parts, &type), MPI_SUCCESS);
  check_takes(type, 4, (const int[]){9, 10, 1, 2});
  CHECK_EQ(MPI_Type_free(&pair), MPI_SUCCESS);

  CHECK_EQ(COUNTED(Type_create_resized)(MPI_INT, -kInt, 4 * kInt, &pair), MPI_SUCCESS);
  check_bounds(pair, -kInt, 4 * kInt, 0, kInt);
  CHECK_EQ(COUNTED(Type_contiguous)(3, pair, &type), MPI_SUCCESS);
  check_takes(type, 3, (const int[]){0, 4, 8});
  CHECK_EQ(MPI_Type_free(&pair), MPI_SUCCESS);

  /* Rows 1 and 2, columns 2 to 4, of 4 x 6; in Fortran's order the first index moves fastest. */
  const Count sizes[] = {4, 6}, subsizes[] = {2, 3}, starts[] = {1, 2};
  CHECK_EQ(COUNTED(Type_create_subarray)(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_SUCCESS);
  check_bounds(type, 0, 24 * kInt, 8 * kInt, 9 * kInt);
  check_takes(type, 6, (const int[]){8, 9, 10, 14, 15, 16});
  CHECK_EQ(COUNTED(Type_create_subarray)(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type), MPI_SUCCESS);
  check_takes(type, 6, (const int[]){9, 10, 13, 14, 17, 18});

  /* 5 rows in blocks over 2 processes, 6 columns cyclically by twos over 2; process 1 of 4 has row 0-2, columns 2, 3.
   */
  const Count global[] = {5, 6};
  const int distributions[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[] = {2, 2};
  CHECK_EQ(COUNTED(Type_create_darray)(4, 1, 2, global, distributions, arguments, grid, MPI_ORDER_C, MPI_INT, &type),
           MPI_SUCCESS);
  check_bounds(type, 0, 30 * kInt, 2 * kInt, 14 * kInt);
  check_takes(type, 6, (const int[]){2, 3, 8, 9, 14, 15});
  CHECK_EQ(COUNTED(Type_create_darray)(4, 2, 2, global, distributions, arguments, grid, MPI_ORDER_C, MPI_INT, &type),
           MPI_SUCCESS);
  check_takes(type, 8, (const int[]){18, 19, 22, 23, 24, 25, 28, 29});
}

/* The envelope says how much there is to ask for; contents are the arguments of the constructor. */
static void contents(void) {
  const Count lengths[] = {2, 1};
  const BytePlace places[] = {64, -8};
  const MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE};
  MPI_Datatype type, found[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  int combiner = -1;
  CHECK_EQ(COUNTED(Type_create_struct)(2, lengths, places, parts, &type), MPI_SUCCESS);
  int integers[3] = {-1, -1, -1};
  MPI_Aint addresses[2] = {-1, -1};
#ifdef LARGE_COUNTS
  MPI_Count n[4] = {-1, -1, -1, -1}, large[5] = {-1, -1, -1, -1, -1};
  CHECK_EQ(MPI_Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &combiner), MPI_SUCCESS);
  CHECK(n[0] == 0 && n[1] == 0 && n[2] == 5 && n[3] == 2);
  CHECK_EQ(MPI_Type_get_contents_c(type, n[0], n[1], n[2], n[3], integers, addresses, large, found), MPI_SUCCESS);
  CHECK(large[0] == 2 && large[1] == 2 && large[2] == 1 && large[3] == 64 && large[4] == -8);
#else
  int n[3] = {-1, -1, -1};
  CHECK_EQ(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner), MPI_SUCCESS);
  CHECK(n[0] == 3 && n[1] == 2 && n[2] == 2);
  CHECK_EQ(MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, found), MPI_SUCCESS);
  CHECK(integers[0] == 2 && integers[1] == 2 && integers[2] == 1 && addresses[0] == 64 && addresses[1] == -8);
#endif
  CHECK_EQ(combiner, MPI_COMBINER_STRUCT);
  CHECK(found[0] == MPI_INT && found[1] == MPI_DOUBLE);
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
}

/* external32 is big-endian. */
static void external(void) {
  const short in[] = {0x0102, 0x0304, -2};
  unsigned char packed[16];
  short out[3] = {0, 0, 0};
  BytePlace size = -1, position = 0;
  CHECK_EQ(COUNTED(Pack_external_size)("external32", 3, MPI_SHORT, &size), MPI_SUCCESS);
  CHECK_EQ(size, 6);
  CHECK_EQ(COUNTED(Pack_external)("external32", in, 3, MPI_SHORT, packed, 16, &position), MPI_SUCCESS);
  CHECK_EQ(position, 6);
  CHECK(memcmp(packed, "\x01\x02\x03\x04\xff\xfe", 6) == 0);
  position = 2;
  CHECK_EQ(COUNTED(Unpack_external)("external32", packed, 6, &position, out, 2, MPI_SHORT), MPI_SUCCESS);
  CHECK_EQ(position, 6);
  CHECK(out[0] == 0x0304 && out[1] == -2 && out[2] == 0);
}

/* A status that the program fills itself answers as one of a receive does. */
static void statuses(void) {
  MPI_Datatype pair;
  MPI_Status status;
  Count count = -1;
  memset(&status, 0, sizeof status);
  CHECK_EQ(COUNTED(Type_contiguous)(2, MPI_INT, &pair), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&pair), MPI_SUCCESS);
  CHECK_EQ(COUNTED(Status_set_elements)(&status, MPI_INT, 5), MPI_SUCCESS);
  CHECK_EQ(COUNTED(Get_count)(&status, MPI_INT, &count), MPI_SUCCESS);
  CHECK_EQ(count, 5);
  CHECK_EQ(COUNTED(Get_count)(&status, pair, &count), MPI_SUCCESS);
  CHECK_EQ(count, MPI_UNDEFINED);
  CHECK_EQ(COUNTED(Get_elements)(&status, pair, &count), MPI_SUCCESS);
  CHECK_EQ(count, 5);
  CHECK_EQ(MPI_Type_free(&pair), MPI_SUCCESS);
}

#ifdef LARGE_COUNTS
/* What no int counts, without the memory. */
static void huge(void) {
  const MPI_Count big = (MPI_Count)1 << 40;
  MPI_Datatype type, outer;
  MPI_Status status;
  MPI_Count count = -1, low = -1;
  int small = 0;
  CHECK_EQ(MPI_Type_contiguous_c(big, MPI_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_size_c(type, &count), MPI_SUCCESS);
  CHECK_EQ(count, 4 * big);
  CHECK_EQ(MPI_Type_size(type, &small), MPI_SUCCESS);
  CHECK_EQ(small, MPI_UNDEFINED);
  CHECK_EQ(MPI_Type_vector_c(2, 1, 3, type, &outer), MPI_SUCCESS);
  check_bounds(outer, 0, 16 * big, 0, 16 * big);
  CHECK_EQ(MPI_Type_free(&outer), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_create_resized_c(type, -big, 8 * big, &outer), MPI_SUCCESS);
  check_bounds(outer, -big, 8 * big, 0, 4 * big);
  CHECK_EQ(MPI_Type_free(&outer), MPI_SUCCESS);
  const MPI_Count sizes[] = {big, 2}, subsizes[] = {big - 1, 1}, starts[] = {1, 1};
  CHECK_EQ(MPI_Type_create_subarray_c(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &outer), MPI_SUCCESS);
  check_bounds(outer, 0, 2 * big, 3, 2 * big - 3);
  CHECK_EQ(MPI_Type_size_c(outer, &count), MPI_SUCCESS);
  CHECK_EQ(count, big - 1);
  CHECK_EQ(MPI_Type_free(&outer), MPI_SUCCESS);
  const MPI_Count one = 1, far = 8 * big;
  CHECK_EQ(MPI_Type_create_hindexed_c(1, &one, &far, MPI_BYTE, &outer), MPI_SUCCESS);
  check_bounds(outer, far, 1, far, 1);
  CHECK_EQ(MPI_Type_free(&outer), MPI_SUCCESS);
  memset(&status, 0, sizeof status);
  CHECK_EQ(MPI_Status_set_elements_c(&status, MPI_INT, big + 1), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_elements_c(&status, MPI_INT, &count), MPI_SUCCESS);
  CHECK_EQ(count, big + 1);
  CHECK_EQ(MPI_Get_elements_x(&status, MPI_INT, &low), MPI_SUCCESS);
  CHECK_EQ(low, big + 1);
  CHECK_EQ(MPI_Get_count(&status, MPI_INT, &small), MPI_SUCCESS);
  CHECK_EQ(small, MPI_UNDEFINED);
  CHECK_EQ(MPI_Type_commit(&type), MPI_SUCCESS);
  CHECK_EQ(MPI_Status_set_elements_x(&status, type, 3 * big), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_count_c(&status, type, &count), MPI_SUCCESS);
  CHECK_EQ(count, 3);
  CHECK_EQ(MPI_Pack_size_c(3, type, MPI_COMM_WORLD, &count), MPI_SUCCESS);
  CHECK(count >= 12 * big);
  CHECK_EQ(MPI_Pack_external_size_c("external32", 3, type, &count), MPI_SUCCESS);
  CHECK_EQ(count, 12 * big);
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
}
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < kInts; ++i) values[i] = 1000 + i;
  constructors();
  contents();
  external();
  statuses();
#ifdef LARGE_COUNTS
  huge();
#endif
  MPI_Finalize();
  return 0;
}
