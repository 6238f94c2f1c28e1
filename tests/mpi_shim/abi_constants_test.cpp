// SPDX-License-Identifier: Apache-2.0
// mpi.h against the values, types and layouts of the MPI 5.0 standard ABI.
#include <gtest/gtest.h>
#include <mpi.h>
#include <mpi_compat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

extern "C" const char* abi_first_wrong_address_in_c(void);

namespace {

/// One constant: what the standard's table says and what the header gives.
struct Constant {
  std::string_view name;
  std::int64_t standard;
  std::int64_t header;
  bool address;
};

template <class T>
std::int64_t address_of(T* pointer) {
  return reinterpret_cast<std::intptr_t>(pointer);
}

#define ABI_INT(name, value) static_assert(std::is_same_v<decltype((name) + 0), int>, #name);
#define ABI_ENUM(type, name, value) static_assert(std::is_same_v<std::remove_cv_t<decltype(name)>, type>, #name);
#define ABI_OFFSET(name, value) static_assert(std::is_same_v<decltype((name) + 0), MPI_Offset>, #name);
#define ABI_ADDRESS(type, name, value) static_assert(std::is_same_v<decltype(name), type>, #name);
#include "tests/mpi_shim/abi_table.inc"
#undef ABI_ADDRESS
#undef ABI_OFFSET
#undef ABI_ENUM
#undef ABI_INT

std::vector<Constant> constants() {
#define ABI_INT(name, value) {#name, value, name, false},
#define ABI_ENUM(type, name, value) {#name, value, name, false},
#define ABI_OFFSET(name, value) {#name, value, name, false},
#define ABI_ADDRESS(type, name, value) {#name, value, address_of(name), true},
  return {
#include "tests/mpi_shim/abi_table.inc"
  };
#undef ABI_ADDRESS
#undef ABI_OFFSET
#undef ABI_ENUM
#undef ABI_INT
}

TEST(AbiConstants, EveryConstantOfTheStandardHasItsValueInCxx) {
  const auto all = constants();
  EXPECT_EQ(all.size(), 364U);
  for (const Constant& constant : all) EXPECT_EQ(constant.header, constant.standard) << constant.name;
}

TEST(AbiConstants, EveryAddressIsTheSameInC) { EXPECT_STREQ(abi_first_wrong_address_in_c(), nullptr); }

TEST(AbiConstants, PredefinedHandlesAreDistinctAndBelow0x400) {
  std::map<std::int64_t, std::string_view> seen;
  for (const Constant& constant : constants()) {
    if (!constant.address || constant.header < 0x20) continue;  // below: special addresses, not handles
    EXPECT_LT(constant.header, 0x400) << constant.name;
    const auto [at, added] = seen.emplace(constant.header, constant.name);
    const bool synonym = constant.header == address_of(MPI_LONG_LONG) || constant.header == address_of(MPI_C_COMPLEX);
    EXPECT_TRUE(added || synonym) << constant.name << " has the address of " << at->second;
  }
}

TEST(AbiConstants, FixedSizeDatatypesSayTheirSizeInTheHandle) {
  const auto size = [](MPI_Datatype type) { return 1 << (address_of(type) >> 3 & 7); };
  for (const MPI_Datatype type :
       {MPI_INT8_T, MPI_UINT8_T, MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_LOGICAL1, MPI_INTEGER1}) {
    EXPECT_EQ(size(type), 1) << type;
  }
  for (const MPI_Datatype type : {MPI_INT16_T, MPI_UINT16_T, MPI_INTEGER2, MPI_REAL2}) EXPECT_EQ(size(type), 2) << type;
  for (const MPI_Datatype type : {MPI_INT32_T, MPI_UINT32_T, MPI_REAL4, MPI_COMPLEX4}) EXPECT_EQ(size(type), 4) << type;
  for (const MPI_Datatype type : {MPI_INT64_T, MPI_UINT64_T, MPI_REAL8, MPI_COMPLEX8}) EXPECT_EQ(size(type), 8) << type;
  for (const MPI_Datatype type : {MPI_INTEGER16, MPI_REAL16, MPI_COMPLEX16}) EXPECT_EQ(size(type), 16) << type;
  EXPECT_EQ(size(MPI_COMPLEX32), 32);
}

TEST(AbiConstants, VersionsAreThoseOfTheStandard) {
  EXPECT_EQ(MPI_VERSION, 5);
  EXPECT_EQ(MPI_SUBVERSION, 0);
  EXPECT_EQ(MPI_ABI_VERSION, 1);
  EXPECT_EQ(MPI_ABI_SUBVERSION, 0);
}

// Layouts and types: nothing to run.
static_assert(sizeof(MPI_Status) == 32 && alignof(MPI_Status) == alignof(int));
static_assert(offsetof(MPI_Status, MPI_SOURCE) == 0 && offsetof(MPI_Status, MPI_TAG) == 4);
static_assert(offsetof(MPI_Status, MPI_ERROR) == 8 && offsetof(MPI_Status, MPI_internal) == 12);
static_assert(std::is_same_v<decltype(MPI_Status::MPI_internal), int[5]>);
static_assert(std::is_same_v<MPI_Aint, std::intptr_t> && std::is_same_v<MPI_Count, std::int64_t> &&
              std::is_same_v<MPI_Offset, std::int64_t> && std::is_same_v<MPI_Fint, int>);
static_assert(MPI_F_STATUS_SIZE * sizeof(MPI_Fint) == sizeof(MPI_Status));
static_assert(std::is_same_v<MPI_Comm, struct MPI_ABI_Comm*> &&
              std::is_same_v<MPI_Datatype, struct MPI_ABI_Datatype*> &&
              std::is_same_v<MPI_Errhandler, struct MPI_ABI_Errhandler*> &&
              std::is_same_v<MPI_File, struct MPI_ABI_File*> && std::is_same_v<MPI_Group, struct MPI_ABI_Group*> &&
              std::is_same_v<MPI_Info, struct MPI_ABI_Info*> && std::is_same_v<MPI_Message, struct MPI_ABI_Message*> &&
              std::is_same_v<MPI_Op, struct MPI_ABI_Op*> && std::is_same_v<MPI_Request, struct MPI_ABI_Request*> &&
              std::is_same_v<MPI_Session, struct MPI_ABI_Session*> && std::is_same_v<MPI_Win, struct MPI_ABI_Win*>);
static_assert(std::is_same_v<MPI_User_function, void(void*, void*, int*, MPI_Datatype*)> &&
              std::is_same_v<MPI_User_function_c, void(void*, void*, MPI_Count*, MPI_Datatype*)>);
static_assert(std::is_same_v<MPI_Comm_copy_attr_function, int(MPI_Comm, int, void*, void*, void*, int*)> &&
              std::is_same_v<MPI_Comm_delete_attr_function, int(MPI_Comm, int, void*, void*)> &&
              std::is_same_v<MPI_Type_copy_attr_function, int(MPI_Datatype, int, void*, void*, void*, int*)> &&
              std::is_same_v<MPI_Type_delete_attr_function, int(MPI_Datatype, int, void*, void*)> &&
              std::is_same_v<MPI_Win_copy_attr_function, int(MPI_Win, int, void*, void*, void*, int*)> &&
              std::is_same_v<MPI_Win_delete_attr_function, int(MPI_Win, int, void*, void*)>);
static_assert(std::is_same_v<MPI_Comm_errhandler_function, void(MPI_Comm*, int*, ...)> &&
              std::is_same_v<MPI_Win_errhandler_function, void(MPI_Win*, int*, ...)> &&
              std::is_same_v<MPI_File_errhandler_function, void(MPI_File*, int*, ...)> &&
              std::is_same_v<MPI_Session_errhandler_function, void(MPI_Session*, int*, ...)>);
static_assert(std::is_same_v<MPI_Grequest_query_function, int(void*, MPI_Status*)> &&
              std::is_same_v<MPI_Grequest_free_function, int(void*)> &&
              std::is_same_v<MPI_Grequest_cancel_function, int(void*, int)>);
static_assert(
    std::is_same_v<MPI_Datarep_extent_function, int(MPI_Datatype, MPI_Aint*, void*)> &&
    std::is_same_v<MPI_Datarep_conversion_function, int(void*, MPI_Datatype, int, void*, MPI_Offset, void*)> &&
    std::is_same_v<MPI_Datarep_conversion_function_c, int(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset, void*)>);

TEST(AbiCompat, AStatusSurvivesTheWayThroughFortranForms) {
  MPI_Status status{};
  status.MPI_SOURCE = 3;
  status.MPI_TAG = 7;
  status.MPI_ERROR = 15;
  for (int i = 0; i < 5; ++i) status.MPI_internal[i] = 100 + i;
  std::array<MPI_Fint, MPI_F_STATUS_SIZE> fortran{};
  ASSERT_EQ(MPI_Status_c2f(&status, fortran.data()), MPI_SUCCESS);
  EXPECT_EQ(fortran, (std::array<MPI_Fint, MPI_F_STATUS_SIZE>{3, 7, 15, 100, 101, 102, 103, 104}));
  MPI_F08_status modern{};
  ASSERT_EQ(MPI_Status_f2f08(fortran.data(), &modern), MPI_SUCCESS);
  MPI_Status back{};
  ASSERT_EQ(MPI_Status_f082c(&modern, &back), MPI_SUCCESS);
  EXPECT_EQ(back.MPI_SOURCE, 3);
  EXPECT_EQ(back.MPI_TAG, 7);
  EXPECT_EQ(back.MPI_ERROR, 15);
  EXPECT_EQ(back.MPI_internal[4], 104);
}

TEST(AbiStateless, VersionsClocksAndAddressesNeedNoInit) {
  int version = 0;
  int subversion = -1;
  ASSERT_EQ(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
  EXPECT_EQ(version * 10 + subversion, 50);
  ASSERT_EQ(MPI_Abi_get_version(&version, &subversion), MPI_SUCCESS);
  EXPECT_EQ(version * 10 + subversion, 10);

  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  ASSERT_EQ(MPI_Get_library_version(text.data(), &length), MPI_SUCCESS);
  EXPECT_EQ(std::string(text.data()).size(), static_cast<std::size_t>(length));
  EXPECT_EQ(std::string_view(text.data()).substr(0, 5), "OPAL ");

  const double start = MPI_Wtime();
  EXPECT_GT(MPI_Wtick(), 0.0);
  while (MPI_Wtime() <= start) {
  }

  std::array<int, 4> numbers{};
  MPI_Aint first = 0;
  MPI_Aint third = 0;
  ASSERT_EQ(MPI_Get_address(numbers.data(), &first), MPI_SUCCESS);
  ASSERT_EQ(MPI_Get_address(&numbers[2], &third), MPI_SUCCESS);
  EXPECT_EQ(MPI_Aint_diff(third, first), 2 * static_cast<MPI_Aint>(sizeof(int)));
  EXPECT_EQ(MPI_Aint_add(first, MPI_Aint_diff(third, first)), third);
  EXPECT_EQ(MPI_Aint_add(INTPTR_MAX, 1), INTPTR_MIN);  // wraps instead of overflowing
}

TEST(AbiStateless, StatusMembersAreSetAndGotten) {
  MPI_Status status{};
  int value = 0;
  ASSERT_EQ(MPI_Status_set_source(&status, 4), MPI_SUCCESS);
  ASSERT_EQ(MPI_Status_set_tag(&status, 5), MPI_SUCCESS);
  ASSERT_EQ(MPI_Status_set_error(&status, 6), MPI_SUCCESS);
  EXPECT_EQ(status.MPI_SOURCE * 100 + status.MPI_TAG * 10 + status.MPI_ERROR, 456);
  ASSERT_EQ(MPI_Status_get_source(&status, &value), MPI_SUCCESS);
  EXPECT_EQ(value, 4);
  ASSERT_EQ(MPI_Status_get_tag(&status, &value), MPI_SUCCESS);
  EXPECT_EQ(value, 5);
  ASSERT_EQ(MPI_Status_get_error(&status, &value), MPI_SUCCESS);
  EXPECT_EQ(value, 6);
}

}  // namespace
