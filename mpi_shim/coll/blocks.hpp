// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/blocks.hpp — one buffer per rank, as the arguments of gathers, scatters and alltoalls describe them.
// A value; borrows the caller's arrays only while it is made.
#pragma once
#include <vector>

#include "mpi_shim/p2p/data/buffer.hpp"

namespace mpi_shim::coll {

using Blocks = std::vector<p2p::Buffer>;

}  // namespace mpi_shim::coll
