// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/host/shared_memory.hpp"

#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/job/job.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::coll {

std::vector<int> ranks_here(Job& job, const comm::Communicator& comm) {
  std::vector<int> here;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank() || job.client().is_local(static_cast<unsigned>(comm.group()->process(rank)))) {
      here.push_back(rank);
    }
  }
  return here;
}

int share_memory(comm::Communicator& comm, int leader, std::uint64_t size, const char* purpose, HostMemory& memory) {
  std::vector<HostMemory::AttachInfo> all(static_cast<std::size_t>(comm.size()));
  const auto take = [&](Result<HostMemory> made) {
    if (made) {
      memory = std::move(*made);
    } else {
      log::warn("mpi", "no shared memory of {} bytes for {}: {}", size, purpose, to_string(made.error()));
    }
  };
  if (comm.rank() == leader && size != 0) {
    take(HostMemory::create(size));
    all[static_cast<std::size_t>(leader)] = memory.attach_info();
  }
  if (const int error = exchange(comm, all); error != MPI_SUCCESS) return error;
  const HostMemory::AttachInfo& made = all[static_cast<std::size_t>(leader)];
  if (comm.rank() != leader && made.fd >= 0 && made.size == size) take(HostMemory::attach(made));
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::coll
