// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/coll/blocks.hpp — the buffer arguments of gathers, scatters and alltoalls as a list of blocks, one per
// rank or neighbour.  even_blocks(), listed_blocks() and typed_blocks() return a function (Call&, int number) that
// checks the arguments and makes the `number` blocks.  It borrows the arrays.
#pragma once
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::api {

/// Each block has `count` elements; the blocks follow each other in memory in the order of the ranks.
inline auto even_blocks(const void* base, MPI_Count count, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    coll::Blocks blocks;
    const p2p::Buffer first = call.buffer(base, count, datatype);
    blocks.reserve(static_cast<std::size_t>(number));
    for (int rank = 0; rank < number; ++rank) {
      blocks.push_back(first.part(first.count() * static_cast<std::uint64_t>(rank), first.count()));
    }
    return blocks;
  };
}

/// Block `rank` has counts[rank] elements of type_of(rank) and begins displacements[rank] * unit bytes after `base`.
template <class Count, class Displacement, class TypeOf>
coll::Blocks placed_blocks(Call& call, int number, const void* base, const Count* counts,
                           const Displacement* displacements, MPI_Aint unit, TypeOf&& type_of) {
  coll::Blocks blocks;
  if (number > 0) {
    call.pointer(counts, "counts");
    call.pointer(displacements, "displs");
  }
  blocks.reserve(static_cast<std::size_t>(number));
  for (int rank = 0; rank < number; ++rank) {
    const auto* start = static_cast<const std::byte*>(base) + displacements[rank] * unit;
    blocks.push_back(call.buffer(counts[rank] == 0 ? base : start, counts[rank], type_of(rank)));
  }
  return blocks;
}

/// Block `rank` has counts[rank] elements and begins displacements[rank] extents of the datatype after `base`.
template <class Count, class Displacement>
auto listed_blocks(const void* base, const Count* counts, const Displacement* displacements, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    const datatype::Datatype* const type = call.type(datatype);
    return placed_blocks(call, number, base, counts, displacements, type->extent(), [=](int) { return datatype; });
  };
}

/// Block `rank` has counts[rank] elements of datatypes[rank] and begins displacements[rank] bytes after `base`.
template <class Count, class Displacement>
auto typed_blocks(const void* base, const Count* counts, const Displacement* displacements,
                  const MPI_Datatype* datatypes) {
  return [=](Call& call, int number) {
    if (number > 0) call.pointer(datatypes, "datatypes");
    return placed_blocks(call, number, base, counts, displacements, 1, [=](int rank) { return datatypes[rank]; });
  };
}

}  // namespace mpi_shim::api
