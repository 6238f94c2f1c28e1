// SPDX-License-Identifier: Apache-2.0
// The representation "external32" against bytes worked out by hand from the standard's table, and against itself.
#include "mpi_shim/datatype/external32.hpp"

#include <gtest/gtest.h>

#include <array>
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/include/mpi.h"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::datatype {
namespace {

const Datatype& type(MPI_Datatype handle) { return *predefined(reinterpret_cast<std::uintptr_t>(handle)); }

std::vector<int> packed(const Datatype& of, const void* data, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(external32_size(of, count).value()), std::byte{0xee});
  pack_external32(of, data, count, bytes);
  std::vector<int> numbers;
  for (const std::byte byte : bytes) numbers.push_back(static_cast<int>(byte));
  return numbers;
}

template <class T>
std::vector<int> packed(MPI_Datatype handle, const T& value) {
  return packed(type(handle), &value, 1);
}

template <class T>
T there_and_back(MPI_Datatype handle, const T& value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(external32_size(type(handle), 1).value()));
  pack_external32(type(handle), &value, 1, bytes);
  T back;
  std::memset(&back, 0x5a, sizeof back);
  unpack_external32(type(handle), &back, 1, bytes);
  return back;
}

TEST(External32, SizesAreThoseOfTheStandardsTable) {
  const std::pair<MPI_Datatype, int> table[] = {{MPI_PACKED, 1},
                                                {MPI_BYTE, 1},
                                                {MPI_CHAR, 1},
                                                {MPI_UNSIGNED_CHAR, 1},
                                                {MPI_SIGNED_CHAR, 1},
                                                {MPI_WCHAR, 2},
                                                {MPI_SHORT, 2},
                                                {MPI_UNSIGNED_SHORT, 2},
                                                {MPI_INT, 4},
                                                {MPI_LONG, 4},
                                                {MPI_UNSIGNED, 4},
                                                {MPI_UNSIGNED_LONG, 4},
                                                {MPI_LONG_LONG_INT, 8},
                                                {MPI_FLOAT, 4},
                                                {MPI_DOUBLE, 8},
                                                {MPI_UNSIGNED_LONG_LONG, 8},
                                                {MPI_LONG_DOUBLE, 16},
                                                {MPI_C_BOOL, 1},
                                                {MPI_INT8_T, 1},
                                                {MPI_INT16_T, 2},
                                                {MPI_INT32_T, 4},
                                                {MPI_INT64_T, 8},
                                                {MPI_UINT8_T, 1},
                                                {MPI_UINT16_T, 2},
                                                {MPI_UINT32_T, 4},
                                                {MPI_UINT64_T, 8},
                                                {MPI_AINT, 8},
                                                {MPI_COUNT, 8},
                                                {MPI_OFFSET, 8},
                                                {MPI_C_COMPLEX, 8},
                                                {MPI_CHARACTER, 1},
                                                {MPI_C_DOUBLE_COMPLEX, 16},
                                                {MPI_LOGICAL, 4},
                                                {MPI_INTEGER, 4},
                                                {MPI_REAL, 4},
                                                {MPI_C_LONG_DOUBLE_COMPLEX, 32},
                                                {MPI_DOUBLE_PRECISION, 8},
                                                {MPI_COMPLEX, 8},
                                                {MPI_INTEGER2, 2},
                                                {MPI_DOUBLE_COMPLEX, 16},
                                                {MPI_REAL8, 8},
                                                {MPI_LONG_INT, 4 + 4},
                                                {MPI_SHORT_INT, 2 + 4}};
  for (const auto& [handle, size] : table) EXPECT_EQ(external32_size(type(handle), 3), 3 * size) << type(handle).name;
}

TEST(External32, NumbersAreBigEndian) {
  EXPECT_EQ(packed(MPI_INT, 0x01020304), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(packed(MPI_INT16_T, std::int16_t{-2}), (std::vector<int>{0xff, 0xfe}));
  EXPECT_EQ(packed(MPI_LONG_LONG_INT, 0x0102030405060708LL), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(packed(MPI_DOUBLE, -2.0), (std::vector<int>{0xc0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(packed(MPI_C_COMPLEX, std::array{1.0F, -2.0F}), (std::vector<int>{0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}));
}

TEST(External32, ALongHasFourBytesAndItsSign) {
  EXPECT_EQ(packed(MPI_LONG, -3L), (std::vector<int>{0xff, 0xff, 0xff, 0xfd}));
  for (const long value : {0L, 1L, -1L, long{INT_MAX}, long{INT_MIN}})
    EXPECT_EQ(there_and_back(MPI_LONG, value), value);
  EXPECT_EQ(there_and_back(MPI_UNSIGNED_LONG, 0xfffffffeUL), 0xfffffffeUL) << "not a sign";
  EXPECT_EQ(there_and_back(MPI_WCHAR, wchar_t{0x20ac}), wchar_t{0x20ac});
}

TEST(External32, ALongDoubleIsBinary128) {
  std::vector<int> one(16, 0);
  one[0] = 0x3f;
  one[1] = 0xff;
  EXPECT_EQ(packed(MPI_LONG_DOUBLE, 1.0L), one);
  for (const long double value : {0.0L, -1.0L, 1.0L / 3, 1e4000L, -1e-4000L}) {
    EXPECT_EQ(there_and_back(MPI_LONG_DOUBLE, value), value);
  }
}

TEST(External32, PairsHaveNoPadding) {
  struct {
    double value;
    int index;
  } pair{1.0, 7};
  EXPECT_EQ(packed(MPI_DOUBLE_INT, pair), (std::vector<int>{0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}));
}

TEST(External32, DerivedTypesComeBackAndTheirGapsAreLeftAlone) {
  // Every other long of a row of pairs, more than one chunk of them.
  const DatatypeRef row = vector(700, 1, 2, *predefined(reinterpret_cast<std::uintptr_t>(MPI_LONG))).value();
  std::vector<long> in(2 * 700 * 3);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<long>(i) * (i % 3 == 0 ? -1 : 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(external32_size(*row, 3).value()));
  ASSERT_EQ(bytes.size(), 700U * 3 * 4);
  pack_external32(*row, in.data(), 3, bytes);
  std::vector<long> out(in.size(), 99);
  unpack_external32(*row, out.data(), 3, bytes);
  const std::size_t extent = 2 * 700 - 1;  // the last block has no gap after it
  for (std::size_t instance = 0; instance < 3; ++instance) {
    for (std::size_t i = 0; i < extent; ++i) {
      const std::size_t at = instance * extent + i;
      ASSERT_EQ(out[at], i % 2 == 0 ? in[at] : 99) << at;
    }
  }
}

TEST(External32, SizesThatDoNotFitAreNone) {
  EXPECT_FALSE(external32_size(type(MPI_LONG_DOUBLE), INT64_MAX / 2).has_value());
  EXPECT_FALSE(external32_size(type(MPI_INT), -1).has_value());
}

}  // namespace
}  // namespace mpi_shim::datatype
