// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/coll/blocks.hpp — the arguments of gathers, scatters and alltoalls as one buffer per rank or neighbour,
// checked: `number` buffers.
#pragma once
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/coll/blocks.hpp"

namespace mpi_shim::api {

/// `count` elements for each rank, one rank after the other.
inline coll::Blocks even_blocks(Call& call, int number, const void* base, MPI_Count count, MPI_Datatype datatype) {
  coll::Blocks blocks;
  const p2p::Buffer first = call.buffer(base, count, datatype);
  if (call.failed()) return blocks;
  blocks.reserve(static_cast<std::size_t>(number));
  for (int rank = 0; rank < number; ++rank) {
    blocks.push_back(first.part(first.count() * static_cast<std::uint64_t>(rank), first.count()));
  }
  return blocks;
}

/// counts[rank] elements for each rank, `displacements[rank]` extents from `base`.
template <class Count, class Displacement>
coll::Blocks listed_blocks(Call& call, int number, const void* base, const Count* counts,
                           const Displacement* displacements, MPI_Datatype datatype) {
  coll::Blocks blocks;
  if (number > 0) call.pointer(counts, "counts");
  if (number > 0) call.pointer(displacements, "displs");
  const datatype::Datatype* const type = call.type(datatype);
  if (call.failed()) return blocks;
  blocks.reserve(static_cast<std::size_t>(number));
  for (int rank = 0; rank < number && !call.failed(); ++rank) {
    const auto* start = static_cast<const std::byte*>(base) + displacements[rank] * type->extent();
    blocks.push_back(call.buffer(counts[rank] == 0 ? base : start, counts[rank], datatype));
  }
  return blocks;
}

/// counts[rank] elements of datatypes[rank], `displacements[rank]` bytes from `base`.
template <class Count, class Displacement>
coll::Blocks typed_blocks(Call& call, int number, const void* base, const Count* counts,
                          const Displacement* displacements, const MPI_Datatype* datatypes) {
  coll::Blocks blocks;
  if (number > 0) {
    call.pointer(counts, "counts");
    call.pointer(displacements, "displs");
    call.pointer(datatypes, "datatypes");
  }
  if (call.failed()) return blocks;
  blocks.reserve(static_cast<std::size_t>(number));
  for (int rank = 0; rank < number && !call.failed(); ++rank) {
    const auto* start = static_cast<const std::byte*>(base) + displacements[rank];
    blocks.push_back(call.buffer(counts[rank] == 0 ? base : start, counts[rank], datatypes[rank]));
  }
  return blocks;
}

}  // namespace mpi_shim::api
