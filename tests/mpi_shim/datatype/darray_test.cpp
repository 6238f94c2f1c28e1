// SPDX-License-Identifier: Apache-2.0
// Distributed arrays against the definition: walk through the whole array and compute the owner of each element.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "mpi.h"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/datatype/cursor.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::datatype {
namespace {

static_assert(static_cast<int>(Combiner::named) == MPI_COMBINER_NAMED);
static_assert(static_cast<int>(Combiner::darray) == MPI_COMBINER_DARRAY);
static_assert(static_cast<int>(Combiner::resized) == MPI_COMBINER_RESIZED);
static_assert(static_cast<int>(Combiner::value_index) == MPI_COMBINER_VALUE_INDEX);

Datatype& int_type() { return *predefined(reinterpret_cast<std::uintptr_t>(MPI_INT)); }

std::int64_t owner(Distribution distribution, std::int64_t argument, std::int64_t size, std::int64_t processes,
                   std::int64_t index) {
  switch (distribution) {
    case Distribution::none: return 0;
    case Distribution::block:
      return index / (argument == kDefaultArgument ? (size + processes - 1) / processes : argument);
    case Distribution::cyclic: return index / (argument == kDefaultArgument ? 1 : argument) % processes;
  }
  return -1;
}

TEST(DistributedArray, EveryRankGetsTheElementsThatItOwnsInStorageOrder) {
  std::mt19937 random{11};
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, high}(random);
  };
  for (int round = 0; round < 300; ++round) {
    const auto dimensions = static_cast<std::size_t>(number(1, 3));
    std::vector<std::int64_t> sizes(dimensions);
    std::vector<Distribution> distributions(dimensions);
    std::vector<std::int64_t> arguments(dimensions);
    std::vector<std::int64_t> grid(dimensions);
    std::int64_t processes = 1;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < dimensions; ++d) {
      sizes[d] = number(1, 9);
      distributions[d] = static_cast<Distribution>(number(16, 18));
      grid[d] = distributions[d] == Distribution::none ? 1 : number(1, 4);
      arguments[d] = kDefaultArgument;
      if (distributions[d] == Distribution::cyclic && number(0, 1) == 1) arguments[d] = number(1, 4);
      if (distributions[d] == Distribution::block && number(0, 1) == 1) {
        arguments[d] = (sizes[d] + grid[d] - 1) / grid[d] + number(0, 2);
      }
      processes *= grid[d];
      elements *= sizes[d];
    }
    const Order order = number(0, 1) == 0 ? Order::c : Order::fortran;
    std::vector<int> whole(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<int>(i);
    std::size_t covered = 0;
    for (std::int64_t rank = 0; rank < processes; ++rank) {
      const auto type = darray({processes, rank, sizes, distributions, arguments, grid, order}, int_type()).value();
      ASSERT_EQ(type->lb(), 0);
      ASSERT_EQ(type->extent(), elements * 4);
      std::vector<int> expected;
      for (std::int64_t e = 0; e < elements; ++e) {
        std::int64_t rest = e;
        std::vector<std::int64_t> at(dimensions);
        for (std::size_t i = 0; i < dimensions; ++i) {
          const std::size_t d = order == Order::fortran ? i : dimensions - 1 - i;
          at[d] = rest % sizes[d];
          rest /= sizes[d];
        }
        std::int64_t of = 0;
        for (std::size_t d = 0; d < dimensions; ++d) {
          of = of * grid[d] + owner(distributions[d], arguments[d], sizes[d], grid[d], at[d]);
        }
        if (of == rank) expected.push_back(static_cast<int>(e));
      }
      std::vector<int> packed(static_cast<std::size_t>(type->size()) / sizeof(int));
      Cursor cursor;
      ASSERT_TRUE(cursor.start(*type, static_cast<const void*>(whole.data()), 1));
      cursor.pack(std::as_writable_bytes(std::span{packed}));
      ASSERT_EQ(packed, expected) << "round " << round << " rank " << rank;
      covered += packed.size();
    }
    ASSERT_EQ(covered, whole.size()) << "every element has one owner";
  }
}

TEST(DistributedArray, ContentsAreTheArgumentsInTheOrderOfTheStandard) {
  const std::int64_t sizes[] = {6, 8};
  const Distribution distributions[] = {Distribution::block, Distribution::cyclic};
  const std::int64_t arguments[] = {kDefaultArgument, 2};
  const std::int64_t grid[] = {2, 3};
  const auto type = darray({6, 4, sizes, distributions, arguments, grid, Order::c}, int_type()).value();
  EXPECT_EQ(type->recipe().combiner, Combiner::darray);
  EXPECT_EQ(type->recipe().integers, (std::vector<std::int64_t>{6, 4, 2, 6, 8, 17, 18, 19, 2, 2, 3, 12}));
}

TEST(DistributedArray, ImpossibleDistributionsAreRefused) {
  const std::int64_t sizes[] = {10};
  const Distribution block[] = {Distribution::block};
  const Distribution none[] = {Distribution::none};
  const std::int64_t default_argument[] = {kDefaultArgument};
  const std::int64_t three[] = {3};
  EXPECT_FALSE(darray({3, 3, sizes, block, default_argument, three, Order::c}, int_type())) << "rank outside";
  EXPECT_FALSE(darray({4, 0, sizes, block, default_argument, three, Order::c}, int_type())) << "grid of another size";
  EXPECT_FALSE(darray({3, 0, sizes, block, three, three, Order::c}, int_type())) << "3 blocks of 3 do not cover 10";
  EXPECT_FALSE(darray({3, 0, sizes, none, default_argument, three, Order::c}, int_type()))
      << "3 processes share nothing";
}

}  // namespace
}  // namespace mpi_shim::datatype
