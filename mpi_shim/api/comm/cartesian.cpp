// SPDX-License-Identifier: Apache-2.0
// Cartesian topologies.
#include <vector>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::api {
namespace {

/// The grid of the communicator; an error if it has no Cartesian topology.
const comm::Cartesian* grid_of(Call& call, const comm::Communicator* communicator) {
  return call.topology<comm::Cartesian>(communicator, "cartesian");
}

std::size_t count_of(const comm::Cartesian& grid, int maxdims) {
  return static_cast<std::size_t>(std::min(maxdims, grid.dimensions()));
}

/// The grid that the arguments describe; an error if the communicator has too few ranks.
comm::Cartesian described(Call& call, const comm::Communicator* communicator, int ndims, const int dims[],
                          const int periods[]) {
  comm::Cartesian grid;
  if (ndims < 0) call.fail(MPI_ERR_DIMS, "argument ndims is negative");
  if (ndims > 0) {
    call.pointer(dims, "dims");
    call.pointer(periods, "periods");
  }
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] <= 0) call.fail(MPI_ERR_DIMS, "dimension " + std::to_string(i) + " is not positive");
    grid.dims.push_back(dims[i]);
    grid.periodic.push_back(periods[i] != 0);
  }
  if (grid.points() < 0 || grid.points() > communicator->size()) {
    call.fail(MPI_ERR_ARG, "the grid has more points than the communicator has processes");
  }
  return grid;
}

}  // namespace

OPAL_MPI_CALL(Dims_create, (Call & call, int nnodes, int ndims, int dims[])) {
  if (nnodes <= 0) call.fail(MPI_ERR_ARG, "argument nnodes is not positive");
  if (ndims < 0) call.fail(MPI_ERR_DIMS, "argument ndims is negative");
  if (ndims > 0) call.pointer(dims, "dims");
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] < 0) call.fail(MPI_ERR_DIMS, "dimension " + std::to_string(i) + " is negative");
  }
  if (ndims == 0) return MPI_SUCCESS;
  if (!comm::balance_dimensions(nnodes, {dims, static_cast<std::size_t>(ndims)})) {
    call.fail(MPI_ERR_DIMS, "argument nnodes is no multiple of the dimensions that are given");
  }
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Cart_create, (Call & call, MPI_Comm comm_old, int ndims, const int dims[], const int periods[],
                            int /*reorder*/, MPI_Comm* comm_cart)) {
  comm::Communicator* const parent = call.intracomm(comm_old, "comm_old");
  *comm_cart = MPI_COMM_NULL;  // the value after an error
  comm::Cartesian grid = described(call, parent, ndims, dims, periods);
  const int color = parent->rank() < grid.points() ? 0 : MPI_UNDEFINED;
  return hand_out(call, split(call.process().communicators(), *parent, color, 0), comm_cart,
                  std::make_shared<const comm::Topology>(std::move(grid)));
}

OPAL_MPI_CALL(Cart_map, (Call & call, MPI_Comm comm, int ndims, const int dims[], const int periods[], int* newrank)) {
  const comm::Communicator* const communicator = call.comm(comm);
  const comm::Cartesian grid = described(call, communicator, ndims, dims, periods);
  return call.answer(newrank, communicator->rank() < grid.points() ? communicator->rank() : MPI_UNDEFINED);
}

OPAL_MPI_CALL(Cartdim_get, (Call & call, MPI_Comm comm, int* ndims)) {
  return call.answer(ndims, grid_of(call, call.comm(comm))->dimensions());
}

OPAL_MPI_CALL(Cart_get, (Call & call, MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[])) {
  comm::Communicator* const communicator = call.comm(comm);
  const comm::Cartesian* const grid = grid_of(call, communicator);
  if (maxdims < 0) call.fail(MPI_ERR_DIMS, "argument maxdims is negative");
  const std::size_t count = count_of(*grid, maxdims);
  if (count != 0) {
    call.pointer(dims, "dims");
    call.pointer(periods, "periods");
    call.pointer(coords, "coords");
  }
  for (std::size_t i = 0; i < count; ++i) {
    dims[i] = grid->dims[i];
    periods[i] = grid->periodic[i];
  }
  grid->coordinates_of(communicator->rank(), {coords, count});
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Cart_coords, (Call & call, MPI_Comm comm, int rank, int maxdims, int coords[])) {
  comm::Communicator* const communicator = call.comm(comm);
  const comm::Cartesian* const grid = grid_of(call, communicator);
  if (maxdims < 0) call.fail(MPI_ERR_DIMS, "argument maxdims is negative");
  call.rank("rank", rank, communicator->size(), "argument comm");
  const std::size_t count = count_of(*grid, maxdims);
  if (count != 0) call.pointer(coords, "coords");
  grid->coordinates_of(rank, {coords, count});
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Cart_rank, (Call & call, MPI_Comm comm, const int coords[], int* rank)) {
  comm::Communicator* const communicator = call.comm(comm);
  const comm::Cartesian* const grid = grid_of(call, communicator);
  if (!grid->dims.empty()) call.pointer(coords, "coords");
  const int found = grid->rank_of({coords, grid->dims.size()});
  if (found == MPI_PROC_NULL) {
    call.fail(MPI_ERR_ARG, "argument coords lies outside of the grid in a dimension that is not periodic");
  }
  *rank = found;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Cart_shift, (Call & call, MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest)) {
  comm::Communicator* const communicator = call.comm(comm);
  const comm::Cartesian* const grid = grid_of(call, communicator);
  if (direction < 0 || direction >= grid->dimensions()) {
    call.fail(MPI_ERR_DIMS, "argument direction is " + std::to_string(direction) + ", but the grid has " +
                                std::to_string(grid->dimensions()) + " dimensions");
  }
  const comm::Cartesian::Shift shift = grid->shift(communicator->rank(), direction, disp);
  *rank_source = shift.source;
  *rank_dest = shift.destination;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Cart_sub, (Call & call, MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm)) {
  comm::Communicator* const parent = call.comm(comm);
  const comm::Cartesian* const grid = grid_of(call, parent);
  if (grid->dimensions() > 0) call.pointer(remain_dims, "remain_dims");
  // The color: ranks with equal coordinates in the dropped dimensions form one new communicator.
  std::vector<int> here(grid->dims.size());
  grid->coordinates_of(parent->rank(), here);
  comm::Cartesian rest;
  int color = 0;
  int key = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    int& number = remain_dims[i] != 0 ? key : color;
    number = number * grid->dims[i] + here[i];
    if (remain_dims[i] == 0) continue;
    rest.dims.push_back(grid->dims[i]);
    rest.periodic.push_back(grid->periodic[i]);
  }
  return hand_out(call, split(call.process().communicators(), *parent, color, key), newcomm,
                  std::make_shared<const comm::Topology>(std::move(rest)));
}

}  // namespace mpi_shim::api
