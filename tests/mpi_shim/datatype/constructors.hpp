// SPDX-License-Identifier: Apache-2.0
// tests/mpi_shim/datatype/constructors.hpp — the standard's type constructors as functions: each writes down its
// recipe.
#pragma once
#include <initializer_list>
#include <vector>

#include "mpi_shim/datatype/construction/constructors.hpp"
#include "mpi_shim/include/mpi.h"

namespace mpi_shim::datatype {

using MadeType = opal::Result<DatatypeRef>;

inline MadeType made(Combiner combiner, std::initializer_list<Counts> integers, Counts addresses,
                     std::span<Datatype* const> parts) {
  Recipe recipe;
  recipe.combiner = combiner;
  for (const Counts list : integers) recipe.integers.insert(recipe.integers.end(), list.begin(), list.end());
  recipe.addresses.assign(addresses.begin(), addresses.end());
  for (Datatype* part : parts) recipe.types.push_back(DatatypeRef::share(*part));
  return construct(std::move(recipe));
}
inline MadeType made(Combiner combiner, std::initializer_list<Counts> integers, Counts addresses, Datatype& part) {
  Datatype* const parts[] = {&part};
  return made(combiner, integers, addresses, parts);
}

/// A list of one number, or of a few.
class Numbers {
 public:
  Numbers(std::initializer_list<std::int64_t> numbers) : numbers_(numbers) {}
  operator Counts() const { return numbers_; }  // NOLINT(google-explicit-constructor): an argument

 private:
  std::vector<std::int64_t> numbers_;
};
inline std::int64_t number_of(Counts list) { return static_cast<std::int64_t>(list.size()); }

inline MadeType contiguous(std::int64_t count, Datatype& part) {
  return made(Combiner::contiguous, {Numbers{count}}, {}, part);
}
inline MadeType vector(std::int64_t count, std::int64_t length, std::int64_t stride, Datatype& part) {
  return made(Combiner::vector, {Numbers{count, length, stride}}, {}, part);
}
inline MadeType hvector(std::int64_t count, std::int64_t length, std::int64_t stride, Datatype& part) {
  return made(Combiner::hvector, {Numbers{count, length}}, Numbers{stride}, part);
}
inline MadeType indexed(Counts lengths, Counts displacements, Datatype& part) {
  return made(Combiner::indexed, {Numbers{number_of(lengths)}, lengths, displacements}, {}, part);
}
inline MadeType hindexed(Counts lengths, Counts displacements, Datatype& part) {
  return made(Combiner::hindexed, {Numbers{number_of(lengths)}, lengths}, displacements, part);
}
inline MadeType indexed_block(std::int64_t length, Counts displacements, Datatype& part) {
  return made(Combiner::indexed_block, {Numbers{number_of(displacements), length}, displacements}, {}, part);
}
inline MadeType hindexed_block(std::int64_t length, Counts displacements, Datatype& part) {
  return made(Combiner::hindexed_block, {Numbers{number_of(displacements), length}}, displacements, part);
}
inline MadeType structure(Counts lengths, Counts displacements, std::span<Datatype* const> parts) {
  return made(Combiner::structure, {Numbers{number_of(lengths)}, lengths}, displacements, parts);
}
inline MadeType resized(Datatype& part, std::int64_t lb, std::int64_t extent) {
  return made(Combiner::resized, {}, Numbers{lb, extent}, part);
}
inline MadeType dup(Datatype& part) { return made(Combiner::dup, {}, {}, part); }

enum class Order : int { c = MPI_ORDER_C, fortran = MPI_ORDER_FORTRAN };
enum class Distribution : int {
  none = MPI_DISTRIBUTE_NONE,
  block = MPI_DISTRIBUTE_BLOCK,
  cyclic = MPI_DISTRIBUTE_CYCLIC
};
inline constexpr std::int64_t kDefaultArgument = MPI_DISTRIBUTE_DFLT_DARG;

inline MadeType subarray(Counts sizes, Counts subsizes, Counts starts, Order order, Datatype& part) {
  return made(Combiner::subarray,
              {Numbers{number_of(sizes)}, sizes, subsizes, starts, Numbers{static_cast<int>(order)}}, {}, part);
}

struct DistributedArray {
  std::int64_t processes;
  std::int64_t rank;
  Counts sizes;
  std::span<const Distribution> distributions;
  Counts arguments;
  Counts grid_sizes;
  Order order;
};
inline MadeType darray(const DistributedArray& array, Datatype& part) {
  std::vector<std::int64_t> distributions;
  for (const Distribution one : array.distributions) distributions.push_back(static_cast<int>(one));
  return made(Combiner::darray,
              {Numbers{array.processes, array.rank, number_of(array.sizes)}, array.sizes, distributions,
               array.arguments, array.grid_sizes, Numbers{static_cast<int>(array.order)}},
              {}, part);
}

}  // namespace mpi_shim::datatype
