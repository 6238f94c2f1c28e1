// SPDX-License-Identifier: Apache-2.0
// Datatypes described as bytes: the same type comes out, and bytes that describe none are refused.
#include "mpi_shim/datatype/construction/description.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::datatype {
namespace {

Datatype& named(std::uintptr_t handle) { return *predefined(handle); }
Datatype& type_int() { return named(0x209); }
Datatype& type_double() { return named(0x214); }
Datatype& type_double_int() { return named(0x229); }

/// One type of each constructor, some made of others.
std::vector<DatatypeRef> samples() {
  std::vector<DatatypeRef> made;
  const std::int64_t lengths[] = {2, 0, 3};
  const std::int64_t places[] = {5, 1, 20};
  const std::int64_t bytes[] = {64, 0, 200};
  made.push_back(contiguous(7, type_int()).value());
  made.push_back(vector(3, 2, -4, type_int()).value());
  made.push_back(hvector(3, 1, 24, *made[0]).value());
  made.push_back(indexed(lengths, places, type_double()).value());
  made.push_back(hindexed(lengths, bytes, *made[1]).value());
  made.push_back(indexed_block(2, places, type_double_int()).value());
  made.push_back(hindexed_block(3, bytes, type_int()).value());
  Datatype* const parts[] = {made[3].get(), &type_double(), made[3].get()};
  made.push_back(structure(lengths, bytes, parts).value());
  made.push_back(resized(*made.back(), -8, 4096).value());
  made.push_back(dup(*made.back()).value());
  const std::int64_t sizes[] = {6, 5, 4};
  const std::int64_t subsizes[] = {2, 3, 4};
  const std::int64_t starts[] = {1, 2, 0};
  made.push_back(subarray(sizes, subsizes, starts, Order::fortran, type_int()).value());
  const Distribution kinds[] = {Distribution::cyclic, Distribution::block, Distribution::none};
  const std::int64_t arguments[] = {2, kDefaultArgument, kDefaultArgument};
  const std::int64_t grid[] = {2, 2, 1};
  made.push_back(darray({4, 3, sizes, kinds, arguments, grid, Order::c}, type_double()).value());
  return made;
}

/// The places of all bytes of two instances, in message order.
std::vector<std::intptr_t> places_of(const Datatype& type) {
  Cursor cursor;
  EXPECT_TRUE(cursor.start(type, static_cast<void*>(nullptr), 2));
  std::vector<std::intptr_t> places;
  while (!cursor.done()) {
    const Piece piece = cursor.next_piece(1);
    places.push_back(reinterpret_cast<std::intptr_t>(piece.data));
  }
  return places;
}

TEST(DatatypeDescription, MakesTheSameTypeAgain) {
  for (const DatatypeRef& type : samples()) {
    const auto again = from_description(describe(*type));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_TRUE((*again)->is_committed());
    EXPECT_EQ((*again)->size(), type->size());
    EXPECT_EQ((*again)->lb(), type->lb());
    EXPECT_EQ((*again)->extent(), type->extent());
    EXPECT_EQ((*again)->recipe().combiner, type->recipe().combiner);
    EXPECT_EQ((*again)->signature().uniform, type->signature().uniform);
    EXPECT_EQ(places_of(**again), places_of(*type));
  }
}

TEST(DatatypeDescription, SaysEachPartOnce) {
  DatatypeRef type = contiguous(2, type_int()).value();
  for (int level = 0; level < 40; ++level) {  // 2^40 of the innermost, were they all said
    const std::int64_t lengths[] = {1, 0};
    const std::int64_t bytes[] = {0, 8};
    Datatype* const parts[] = {type.get(), type.get()};
    type = structure(lengths, bytes, parts).value();
  }
  const auto bytes = describe(*type);
  EXPECT_LT(bytes.size(), 41U * 16 * sizeof(std::int64_t));
  EXPECT_TRUE(from_description(bytes));
}

TEST(DatatypeDescription, RefusesTypesNestedTooDeep) {
  DatatypeRef type = contiguous(1, type_int()).value();
  for (int level = 0; level < 300; ++level) type = contiguous(1, *type).value();
  EXPECT_FALSE(from_description(describe(*type)));
}

TEST(DatatypeDescription, RefusesEveryTruncation) {
  for (const DatatypeRef& type : samples()) {
    const auto bytes = describe(*type);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(from_description(opal::ByteSpan{bytes}.first(size)));
    }
  }
}

/// Whatever comes out of changed bytes is a type that can be walked, or an error.
TEST(DatatypeDescription, SurvivesChangedBytes) {
  std::mt19937 random{20251};
  int refused = 0;
  for (const DatatypeRef& type : samples()) {
    for (int round = 0; round < 300; ++round) {
      auto bytes = describe(*type);
      const std::size_t word = random() % (bytes.size() / 8) * 8;
      const std::int64_t values[] = {-1, 0, 1, INT64_MAX, INT64_MIN, static_cast<std::int64_t>(random() % 256)};
      const std::int64_t value = values[random() % std::size(values)];
      std::memcpy(bytes.data() + word, &value, sizeof value);
      const auto made = from_description(bytes);
      refused += made ? 0 : 1;
      if (!made || !(*made)->packed_size(1)) continue;
      Cursor cursor;
      ASSERT_TRUE(cursor.start(**made, static_cast<void*>(nullptr), 1));
      for (int piece = 0; piece < 1000 && !cursor.done(); ++piece) {
        ASSERT_NE(cursor.next_piece(1U << 20).bytes, 0U);
      }
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace mpi_shim::datatype
