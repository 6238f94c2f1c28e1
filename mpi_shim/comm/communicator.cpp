// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/communicator.hpp"

namespace mpi_shim::comm {

Communicator::Communicator(MPI_Comm predefined, std::uint32_t id, std::shared_ptr<const Group> group,
                           std::vector<p2p::Peer*> peers, p2p::Engine& engine)
    : Object(kKind, predefined == MPI_COMM_NULL ? 0 : reinterpret_cast<std::uintptr_t>(predefined)),
      id_(id),
      group_(std::move(group)),
      peers_(std::move(peers)),
      engine_(engine) {
  user_.context = 2 * id;
  collective_.context = 2 * id + 1;
  user_.rank = collective_.rank = group_->rank();
  user_.peers = collective_.peers = peers_;
  engine_.open_channel(user_);
  engine_.open_channel(collective_);
  if (is_predefined()) handle::set_builtin(*this);
}

Communicator::~Communicator() {
  if (is_predefined()) handle::clear_builtin(*this);
  engine_.close_channel(user_);
  engine_.close_channel(collective_);
}

}  // namespace mpi_shim::comm
