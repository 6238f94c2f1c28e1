// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/coll/blocks.hpp — the arguments of gathers, scatters and alltoalls as one buffer per rank or neighbour,
// checked: `number` buffers.
#pragma once
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/coll/schedule.hpp"

namespace mpi_shim::api {

/// `count` elements for each rank, one rank after the other.
inline auto even_blocks(const void* base, MPI_Count count, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    coll::Blocks blocks;
    const p2p::Buffer first = call.buffer(base, count, datatype);
    if (call.failed()) return blocks;
    blocks.reserve(static_cast<std::size_t>(number));
    for (int rank = 0; rank < number; ++rank) {
      blocks.push_back(first.part(first.count() * static_cast<std::uint64_t>(rank), first.count()));
    }
    return blocks;
  };
}

/// counts[rank] elements of type_of(rank), `displacements[rank]` times `unit` bytes from `base`.
template <class Count, class Displacement, class TypeOf>
coll::Blocks placed_blocks(Call& call, int number, const void* base, const Count* counts,
                           const Displacement* displacements, MPI_Aint unit, TypeOf&& type_of) {
  coll::Blocks blocks;
  if (number > 0) {
    call.pointer(counts, "counts");
    call.pointer(displacements, "displs");
  }
  if (call.failed()) return blocks;
  blocks.reserve(static_cast<std::size_t>(number));
  for (int rank = 0; rank < number && !call.failed(); ++rank) {
    const auto* start = static_cast<const std::byte*>(base) + displacements[rank] * unit;
    blocks.push_back(call.buffer(counts[rank] == 0 ? base : start, counts[rank], type_of(rank)));
  }
  return blocks;
}

/// counts[rank] elements for each rank, `displacements[rank]` extents from `base`.
template <class Count, class Displacement>
auto listed_blocks(const void* base, const Count* counts, const Displacement* displacements, MPI_Datatype datatype) {
  return [=](Call& call, int number) {
    const datatype::Datatype* const type = call.type(datatype);
    return placed_blocks(call, number, base, counts, displacements, call.failed() ? 0 : type->extent(),
                         [=](int) { return datatype; });
  };
}

/// counts[rank] elements of datatypes[rank], `displacements[rank]` bytes from `base`.
template <class Count, class Displacement>
auto typed_blocks(const void* base, const Count* counts, const Displacement* displacements,
                  const MPI_Datatype* datatypes) {
  return [=](Call& call, int number) {
    if (number > 0) call.pointer(datatypes, "datatypes");
    return placed_blocks(call, number, base, counts, displacements, 1, [=](int rank) { return datatypes[rank]; });
  };
}

}  // namespace mpi_shim::api
