// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/host_team_place.hpp — where a communicator keeps its team (coll/host/team.hpp), once there is one.
// Owns it.  Threads: as the team.
#pragma once
#include <cstdint>
#include <memory>

namespace mpi_shim {
class Job;
}
namespace mpi_shim::comm {
class Communicator;
}

namespace mpi_shim::coll {

class HostTeam;

class HostTeamPlace {
 public:
  HostTeamPlace() noexcept;
  ~HostTeamPlace();
  /// The team, if a blocking collective on `comm` may use it: null at first, and where there is none.  To be called
  /// once for each of them in every process.
  HostTeam* find(Job& job, comm::Communicator& comm);

 private:
  std::unique_ptr<HostTeam> team_;
  std::uint32_t uses_ = 0;
};

}  // namespace mpi_shim::coll
