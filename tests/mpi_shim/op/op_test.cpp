// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/op/op.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "mpi.h"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/handle/table.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::op {
namespace {

using datatype::Cursor;
using datatype::Datatype;
using datatype::Element;

static_assert(std::is_same_v<UserFunction, MPI_User_function>);
static_assert(std::is_same_v<LargeUserFunction, MPI_User_function_c>);

Datatype& type(MPI_Datatype handle) { return *datatype::predefined(reinterpret_cast<std::uintptr_t>(handle)); }
Op& op(MPI_Op handle) { return *predefined(reinterpret_cast<std::uintptr_t>(handle)); }

TEST(Op, PredefinedOperationsHaveTheirNamesAndHandles) {
  EXPECT_STREQ(op(MPI_SUM).name(), "MPI_SUM");
  EXPECT_EQ(op(MPI_MAXLOC).kind(), OpKind::maxloc);
  EXPECT_EQ(handle::to_handle<MPI_Op>(op(MPI_BXOR)), MPI_BXOR);
  EXPECT_EQ(predefined(reinterpret_cast<std::uintptr_t>(MPI_OP_NULL)), nullptr);
}

TEST(Op, CollectivesTakeAPredefinedOperationOnItsPredefinedTypesOnly) {
  EXPECT_TRUE(op(MPI_SUM).reduces(type(MPI_INT)));
  EXPECT_TRUE(op(MPI_SUM).reduces(type(MPI_AINT)));
  EXPECT_TRUE(op(MPI_BAND).reduces(type(MPI_BYTE)));
  EXPECT_TRUE(op(MPI_LAND).reduces(type(MPI_CXX_BOOL)));
  EXPECT_FALSE(op(MPI_SUM).reduces(type(MPI_BYTE)));
  EXPECT_FALSE(op(MPI_SUM).reduces(type(MPI_PACKED)));
  EXPECT_FALSE(op(MPI_MAX).reduces(type(MPI_C_DOUBLE_COMPLEX)));
  EXPECT_FALSE(op(MPI_BOR).reduces(type(MPI_DOUBLE)));
  EXPECT_FALSE(op(MPI_MINLOC).reduces(type(MPI_INT)));
  EXPECT_FALSE(op(MPI_REPLACE).reduces(type(MPI_INT)));
  EXPECT_FALSE(op(MPI_NO_OP).reduces(type(MPI_INT)));
  const auto pair = datatype::contiguous(2, type(MPI_INT)).value();
  EXPECT_FALSE(op(MPI_SUM).reduces(*pair));
}

TEST(Op, APredefinedOperationReducesArrays) {
  std::vector<double> in(1000, 2.0);
  std::vector<double> inout(1000);
  std::iota(inout.begin(), inout.end(), 0.0);
  op(MPI_PROD).apply(in.data(), inout.data(), 1000, type(MPI_DOUBLE));
  for (std::size_t i = 0; i < inout.size(); ++i) ASSERT_EQ(inout[i], 2.0 * static_cast<double>(i));
}

void subtract(void* in, void* inout, int* count, MPI_Datatype* of) {
  EXPECT_EQ(*of, MPI_INT);
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] = static_cast<int*>(in)[i] - static_cast<int*>(inout)[i];
  *count = -1;  // what the function leaves behind must not matter
}

TEST(Op, AFunctionOfTheApplicationGetsItsHandleAndEveryElement) {
  const auto minus = handle::create<Op>(&subtract, false).value();
  EXPECT_FALSE(minus->is_commutative());
  int in[] = {10, 20, 30};
  int inout[] = {1, 2, 3};
  minus->apply(in, inout, 3, type(MPI_INT));
  EXPECT_EQ(std::vector<int>(inout, inout + 3), (std::vector<int>{9, 18, 27}));
  minus->apply(in, inout, 0, type(MPI_INT));
  EXPECT_EQ(inout[0], 9);
}

std::vector<std::pair<std::uintptr_t, int>> seen_calls;
void note_call(void* in, void*, int* count, MPI_Datatype*) {
  seen_calls.emplace_back(reinterpret_cast<std::uintptr_t>(in), *count);
}
std::int64_t seen_large = 0;
void note_large(void*, void*, MPI_Count* count, MPI_Datatype*) { seen_large = *count; }

TEST(Op, MoreElementsThanAnIntCanCountArriveInSeveralCalls) {
  const auto noting = handle::create<Op>(&note_call, true).value();
  const std::int64_t count = (std::int64_t{1} << 32) + 5;
  noting->apply(reinterpret_cast<void*>(0x1000), nullptr, count, type(MPI_DOUBLE));  // addresses only: never read
  ASSERT_EQ(seen_calls.size(), 3U);
  EXPECT_EQ(std::int64_t{seen_calls[0].second} + seen_calls[1].second + seen_calls[2].second, count);
  EXPECT_EQ(seen_calls[1].first, 0x1000 + 8 * static_cast<std::uintptr_t>(seen_calls[0].second));
  const auto large = handle::create<Op>(&note_large, true).value();
  large->apply(nullptr, nullptr, count, type(MPI_DOUBLE));
  EXPECT_EQ(seen_large, count);
}

std::vector<std::byte> scratch;  // of accumulate()

TEST(Accumulate, AddsPackedElementsIntoAStridedTarget) {
  const auto column = datatype::vector(4, 1, 3, type(MPI_INT)).value();
  int matrix[12];
  std::iota(matrix, matrix + 12, 0);
  EXPECT_TRUE(accumulates(OpKind::sum, *column));
  Cursor target;
  ASSERT_TRUE(target.start(*column, matrix, 1));
  const int addends[] = {100, 200, 300, 400};
  ASSERT_TRUE(accumulate(OpKind::sum, Element::i32, std::as_bytes(std::span{addends}.first(3)), target, scratch));
  ASSERT_TRUE(accumulate(OpKind::sum, Element::i32, std::as_bytes(std::span{addends}.last(1)), target, scratch));
  EXPECT_EQ(std::vector<int>(matrix, matrix + 12), (std::vector<int>{100, 1, 2, 203, 4, 5, 306, 7, 8, 409, 10, 11}));
}

TEST(Accumulate, PairsWithGapsKeepWhatLiesInTheGaps) {
  struct ShortInt {
    short value;
    unsigned short gap;
    int index;
  };
  ShortInt target_pairs[] = {{5, 0xdead, 50}, {6, 0xbeef, 60}, {7, 0xcafe, 70}};
  std::vector<std::byte> packed;
  for (const auto& [value, index] : {std::pair<short, int>{4, 1}, {6, 2}, {9, 3}}) {
    packed.insert(packed.end(), reinterpret_cast<const std::byte*>(&value),
                  reinterpret_cast<const std::byte*>(&value) + 2);
    packed.insert(packed.end(), reinterpret_cast<const std::byte*>(&index),
                  reinterpret_cast<const std::byte*>(&index) + 4);
  }
  Cursor target;
  ASSERT_TRUE(target.start(type(MPI_SHORT_INT), target_pairs, 3));
  ASSERT_TRUE(accumulate(OpKind::minloc, Element::pair_i16_i32, packed, target, scratch));
  EXPECT_EQ(target_pairs[0].value, 4);
  EXPECT_EQ(target_pairs[0].index, 1);
  EXPECT_EQ(target_pairs[1].index, 2) << "equal values keep the smaller index";
  EXPECT_EQ(target_pairs[2].value, 7);
  EXPECT_EQ(target_pairs[2].index, 70);
  EXPECT_EQ(target_pairs[1].gap, 0xbeef);
}

TEST(Accumulate, ReplaceAndNoOpMoveThroughTheTarget) {
  double values[] = {1, 2, 3};
  const double news[] = {10, 20};
  Cursor target;
  ASSERT_TRUE(target.start(type(MPI_DOUBLE), values, 3));
  ASSERT_TRUE(accumulate(OpKind::no_op, Element::f64, std::as_bytes(std::span{news}.first(1)), target, scratch));
  ASSERT_TRUE(accumulate(OpKind::replace, Element::f64, std::as_bytes(std::span{news}), target, scratch));
  EXPECT_EQ(std::vector<double>(values, values + 3), (std::vector<double>{1, 10, 20}));
  EXPECT_TRUE(target.done());
}

TEST(Accumulate, WhatDoesNotFitIsRefusedAndChangesNothing) {
  int values[] = {1, 2};
  const std::byte bytes[12] = {};
  Cursor target;
  ASSERT_TRUE(target.start(type(MPI_INT), values, 2));
  EXPECT_FALSE(accumulate(OpKind::sum, Element::i32, std::span{bytes}.first(6), target, scratch));
  EXPECT_FALSE(accumulate(OpKind::sum, Element::i32, std::span{bytes}, target, scratch));
  EXPECT_FALSE(accumulate(OpKind::band, Element::f32, std::span{bytes}.first(4), target, scratch));
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(target.position(), 0);
}

}  // namespace
}  // namespace mpi_shim::op
