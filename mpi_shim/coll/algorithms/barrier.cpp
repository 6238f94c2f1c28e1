// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/algorithms/barrier.hpp"

namespace mpi_shim::coll {

void build_barrier(Schedule& schedule) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    const int step = static_cast<int>(distance);
    schedule.receive({}, (rank - step + size) % size);
    schedule.send({}, static_cast<int>((rank + distance) % size));
    schedule.end_round();
  }
}

}  // namespace mpi_shim::coll
