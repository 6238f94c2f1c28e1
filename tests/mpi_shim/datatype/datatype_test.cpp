// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "mpi.h"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "mpi_shim/datatype/signature.hpp"
#include "mpi_shim/handle/table.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;

Datatype& named(MPI_Datatype handle) { return *predefined(reinterpret_cast<std::uintptr_t>(handle)); }

template <class T>
std::vector<std::byte> packed(const Datatype& type, const T& buffer, std::int64_t count) {
  Cursor cursor;
  EXPECT_TRUE(cursor.start(type, static_cast<const void*>(buffer), count));
  std::vector<std::byte> bytes(static_cast<std::size_t>(cursor.size()));
  EXPECT_EQ(cursor.pack(bytes), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values(const std::vector<std::byte>& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return all;
}

TEST(Predefined, TypesHaveTheSizesAndExtentsOfTheirCTypes) {
  EXPECT_EQ(named(MPI_INT).size(), 4);
  EXPECT_EQ(named(MPI_LONG_DOUBLE).size(), static_cast<std::int64_t>(sizeof(long double)));
  EXPECT_EQ(named(MPI_C_DOUBLE_COMPLEX).extent(), 16);
  EXPECT_EQ(named(MPI_WCHAR).size(), static_cast<std::int64_t>(sizeof(wchar_t)));
  EXPECT_EQ(named(MPI_AINT).size(), static_cast<std::int64_t>(sizeof(MPI_Aint)));
  EXPECT_EQ(named(MPI_COUNT).size(), static_cast<std::int64_t>(sizeof(MPI_Count)));
  EXPECT_EQ(named(MPI_COMPLEX32).size(), 32);
  struct DoubleInt {
    double value;
    int index;
  };
  EXPECT_EQ(named(MPI_DOUBLE_INT).size(), 12);
  EXPECT_EQ(named(MPI_DOUBLE_INT).extent(), static_cast<std::int64_t>(sizeof(DoubleInt)));
  EXPECT_EQ(named(MPI_DOUBLE_INT).true_extent(), 12);
  EXPECT_EQ(named(MPI_SHORT_INT).size(), 6);
  EXPECT_EQ(named(MPI_SHORT_INT).extent(), 8);
  EXPECT_EQ(named(MPI_LONG_DOUBLE_INT).extent(), 32);
}

TEST(Predefined, SizesInHandlesOfFixedSizeTypesAreTheTypesSizes) {
  int checked = 0;
  for (std::uintptr_t handle = 0x240; handle <= 0x2ff; ++handle) {
    const Datatype* const type = predefined(handle);
    if (type == nullptr) continue;
    EXPECT_EQ(type->size(), std::int64_t{1} << (type->handle() >> 3 & 7)) << type->name;
    ++checked;
  }
  EXPECT_GE(checked, 30);
}

TEST(Predefined, NullAndUnassignedHandlesNameNoType) {
  EXPECT_EQ(predefined(reinterpret_cast<std::uintptr_t>(MPI_DATATYPE_NULL)), nullptr);
  EXPECT_EQ(predefined(0x204), nullptr);
  EXPECT_EQ(predefined(0x12345), nullptr);
}

TEST(Constructors, ContiguousOfContiguousIsOneRun) {
  const auto inner = contiguous(3, named(MPI_INT)).value();
  const auto outer = contiguous(5, *inner).value();
  EXPECT_TRUE(outer->is_contiguous());
  EXPECT_EQ(outer->size(), 60);
  EXPECT_EQ(outer->signature().uniform, Element::i32);
  EXPECT_FALSE(outer->is_committed());
}

TEST(Constructors, VectorWhoseStrideIsItsBlockIsOneRun) {
  EXPECT_TRUE(vector(4, 2, 2, named(MPI_DOUBLE)).value()->is_contiguous());
  EXPECT_FALSE(vector(4, 2, 3, named(MPI_DOUBLE)).value()->is_contiguous());
}

TEST(Constructors, RegularIndexedTypesBecomeAVectorKernel) {
  std::vector<std::int64_t> displacements(1000);
  for (std::size_t i = 0; i < displacements.size(); ++i) displacements[i] = static_cast<std::int64_t>(i) * 3;
  const auto type = indexed_block(1, displacements, named(MPI_DOUBLE)).value();
  ASSERT_NE(type->layout().only_item(), nullptr);
  EXPECT_EQ(type->layout().only_item()->count, 1000);
  EXPECT_EQ(type->layout().only_item()->stride, 24);
}

TEST(Constructors, StructHasThePaddingOfTheCStruct) {
  struct Particle {
    char kind;
    double position[3];
    int cell;
  };
  const std::int64_t lengths[] = {1, 3, 1};
  const std::int64_t displacements[] = {offsetof(Particle, kind), offsetof(Particle, position),
                                        offsetof(Particle, cell)};
  Datatype* parts[] = {&named(MPI_CHAR), &named(MPI_DOUBLE), &named(MPI_INT)};
  const auto type = structure(lengths, displacements, parts).value();
  EXPECT_EQ(type->size(), 29);
  EXPECT_EQ(type->extent(), static_cast<std::int64_t>(sizeof(Particle)));

  Particle sent[2] = {{'a', {1, 2, 3}, 4}, {'b', {5, 6, 7}, 8}};
  const auto bytes = packed(*type, sent, 2);
  Particle got[2] = {};
  Cursor cursor;
  ASSERT_TRUE(cursor.start(*type, got, 2));
  EXPECT_EQ(cursor.unpack(bytes), 58U);
  EXPECT_EQ(got[1].kind, 'b');
  EXPECT_EQ(got[1].position[2], 7);
  EXPECT_EQ(got[1].cell, 8);
}

TEST(Constructors, ExplicitBoundsOfAPartBindTheWhole) {
  const auto wide = resized(named(MPI_INT), -4, 100).value();
  const std::int64_t lengths[] = {1, 1};
  const std::int64_t displacements[] = {0, 400};
  Datatype* parts[] = {wide.get(), &named(MPI_DOUBLE)};
  const auto type = structure(lengths, displacements, parts).value();
  EXPECT_EQ(type->lb(), -4);
  EXPECT_EQ(type->bounds().ub(), 96) << "the standard lets markers decide, whatever lies after them";
  EXPECT_EQ(type->true_extent(), 408);
}

TEST(Constructors, ResizedRowsInterleaveIntoColumns) {
  // The column of a 4x3 matrix, made to step by one element: two of them are two neighbouring columns.
  const auto column = vector(4, 1, 3, named(MPI_INT)).value();
  const auto stepping = resized(*column, 0, sizeof(int)).value();
  std::array<int, 12> matrix{};
  std::iota(matrix.begin(), matrix.end(), 0);
  EXPECT_EQ(values<int>(packed(*stepping, matrix.data(), 2)), (std::vector<int>{0, 3, 6, 9, 1, 4, 7, 10}));
}

TEST(Constructors, NegativeArgumentsAndSectionsOutsideTheirArrayAreRefused) {
  EXPECT_EQ(contiguous(-1, named(MPI_INT)).error().code, Errc::invalid_argument);
  EXPECT_EQ(vector(2, -1, 1, named(MPI_INT)).error().code, Errc::invalid_argument);
  const std::int64_t sizes[] = {4};
  const std::int64_t starts[] = {3};
  EXPECT_EQ(subarray(sizes, sizes, starts, Order::c, named(MPI_INT)).error().code, Errc::invalid_argument);
}

TEST(Constructors, SizesBeyondSixtyThreeBitsAreRefused) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_EQ(contiguous(kHuge, named(MPI_INT)).error().code, Errc::limit_reached);
  EXPECT_EQ(vector(3, 1, kHuge, named(MPI_BYTE)).error().code, Errc::limit_reached);
  EXPECT_EQ(vector(3, 1, kHuge, named(MPI_DOUBLE)).error().code, Errc::limit_reached);
  const std::int64_t lengths[] = {1, 1};
  const std::int64_t ends[] = {-kHuge - 10, kHuge};
  EXPECT_EQ(hindexed(lengths, ends, named(MPI_INT)).error().code, Errc::limit_reached);
  const auto big = contiguous(std::int64_t{1} << 40, named(MPI_DOUBLE)).value();
  Cursor cursor;
  EXPECT_EQ(cursor.start(*big, static_cast<void*>(nullptr), std::int64_t{1} << 30).error().code, Errc::limit_reached);
  EXPECT_FALSE(big->packed_size(std::int64_t{1} << 30).has_value());
}

TEST(Constructors, ABlockThatEndsBeyondSixtyThreeBitsHasNoPackedSize) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  const std::int64_t lengths[] = {1};
  const std::int64_t displacements[] = {kHalf};
  const auto far = hindexed(lengths, displacements, named(MPI_BYTE)).value();
  EXPECT_EQ(far->packed_size(1), 1);
  EXPECT_EQ(far->packed_size(kHalf - 1), kHalf - 1);
  EXPECT_FALSE(far->packed_size(kHalf).has_value());
}

TEST(Constructors, DoublingAStructThirtyTimesStaysSmall) {
  const std::int64_t lengths[] = {1, 1};
  Datatype* leaves[] = {&named(MPI_INT), &named(MPI_DOUBLE)};
  const std::int64_t first[] = {0, 8};
  DatatypeRef type = structure(lengths, first, leaves).value();
  for (int level = 0; level < 30; ++level) {
    Datatype* twice[] = {type.get(), type.get()};
    const std::int64_t displacements[] = {0, type->extent() + 8};
    type = structure(lengths, displacements, twice).value();
  }
  EXPECT_EQ(type->size(), std::int64_t{12} << 30);
  EXPECT_LT(type->layout().items.size() + type->layout().blocks.size(), 2000U);
  EXPECT_EQ(type->signature().elements, std::int64_t{2} << 30);
}

TEST(Constructors, APartOutlivesItsHandle) {
  Datatype* part = contiguous(4, named(MPI_INT)).value().detach();
  const auto whole = vector(2, 1, 2, *part).value();
  const auto handle = handle::to_handle<MPI_Datatype>(*part);
  part->retire();
  EXPECT_EQ(handle::find<Datatype>(handle), nullptr) << "the application's handle is gone";
  ASSERT_EQ(whole->recipe().types.size(), 1U);
  EXPECT_EQ(whole->recipe().types[0]->size(), 16) << "the part is not";
  EXPECT_EQ(whole->recipe().integers, (std::vector<std::int64_t>{2, 1, 2}));
}

TEST(Cursor, AbsoluteDisplacementsWorkFromTheNullBuffer) {
  int a = 11;
  double b = 2.5;
  const std::int64_t lengths[] = {1, 1};
  const std::int64_t addresses[] = {reinterpret_cast<std::int64_t>(&a), reinterpret_cast<std::int64_t>(&b)};
  Datatype* parts[] = {&named(MPI_INT), &named(MPI_DOUBLE)};
  const auto type = structure(lengths, addresses, parts).value();
  const auto bytes = packed(*type, static_cast<const void*>(MPI_BOTTOM), 1);
  int got_a = 0;
  double got_b = 0;
  std::memcpy(&got_a, bytes.data(), 4);
  std::memcpy(&got_b, bytes.data() + 4, 8);
  EXPECT_EQ(got_a, 11);
  EXPECT_EQ(got_b, 2.5);
}

TEST(Cursor, NothingToSendIsDoneAtOnce) {
  Cursor cursor;
  ASSERT_TRUE(cursor.start(named(MPI_INT), static_cast<void*>(nullptr), 0));
  EXPECT_TRUE(cursor.done());
  const auto empty = contiguous(0, named(MPI_INT)).value();
  ASSERT_TRUE(cursor.start(*empty, static_cast<void*>(nullptr), 1000));
  EXPECT_TRUE(cursor.done());
  EXPECT_EQ(cursor.next_piece(100).bytes, 0U);
  std::array<std::byte, 4> none{};
  EXPECT_EQ(cursor.pack(none), 0U);
}

TEST(Cursor, SeeksFarIntoATerabyteWithoutWalkingThere) {
  const auto row = vector(1 << 20, 1, 2, named(MPI_DOUBLE)).value();
  const auto plane = hvector(1 << 20, 1, (std::int64_t{1} << 24) + 64, *row).value();
  Cursor cursor;
  ASSERT_TRUE(cursor.start(*plane, static_cast<void*>(nullptr), 3));
  EXPECT_EQ(cursor.size(), std::int64_t{3} << 43);
  const std::int64_t target = (std::int64_t{5} << 40) + 8 * 7 + 3;
  cursor.seek(target);
  const Piece piece = cursor.next_piece(100);
  EXPECT_EQ(piece.bytes, 5U);
  const std::int64_t rows = (std::int64_t{5} << 40) >> 23;
  EXPECT_EQ(reinterpret_cast<std::int64_t>(piece.data), rows * ((std::int64_t{1} << 24) + 64) + 7 * 16 + 3);
}

TEST(Cursor, PiecesOfAContiguousTypeAreAsLongAsAsked) {
  std::vector<double> data(1000);
  Cursor cursor;
  ASSERT_TRUE(cursor.start(named(MPI_DOUBLE), data.data(), 1000));
  EXPECT_EQ(cursor.next_piece(3000).bytes, 3000U);
  EXPECT_EQ(cursor.next_piece(1 << 20).bytes, 5000U);
  EXPECT_TRUE(cursor.done());
}

TEST(Cursor, TypesNestedDeeperThanTheInlineFramesPackRight) {
  DatatypeRef type = contiguous(1, named(MPI_INT)).value();
  for (int level = 0; level < 10; ++level) type = hvector(2, 1, type->extent() + 4, *type).value();
  std::vector<int> buffer(static_cast<std::size_t>(type->extent()) / sizeof(int));
  std::iota(buffer.begin(), buffer.end(), 0);
  const auto all = values<int>(packed(*type, buffer.data(), 1));
  ASSERT_EQ(all.size(), 1024U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t offset = 0;
    std::int64_t extent = 4;
    for (int level = 0; level < 10; ++level) {
      if ((i >> level & 1) != 0) offset += extent + 4;
      extent = 2 * extent + 4;
    }
    ASSERT_EQ(all[i], offset / 4);
  }
}

TEST(Signature, CountsAPairAsItsValueAndItsIndex) {
  const auto two = contiguous(2, named(MPI_DOUBLE_INT)).value();
  EXPECT_EQ(elements_in(*two, 24).elements, 4);
  EXPECT_EQ(elements_in(*two, 20).elements, 3);
  EXPECT_EQ(elements_in(*two, 13).elements, 2);
  EXPECT_EQ(elements_in(*two, 13).rest, 1);
  EXPECT_EQ(two->signature().uniform, Element::pair_f64_i32);
}

}  // namespace
}  // namespace mpi_shim::datatype
