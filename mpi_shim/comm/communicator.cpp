// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/communicator.hpp"

#include "mpi_shim/job/vci.hpp"

namespace mpi_shim::comm {
namespace {

std::vector<p2p::Peer*> peers_on(Vci& vci, const Sides& sides) {
  std::vector<p2p::Peer*> peers;
  for (const int process : sides.processes()) peers.push_back(&vci.peer(process));
  return peers;
}

}  // namespace

// All processes of both groups get the same order.
std::vector<int> Sides::processes() const {
  const auto list = [](const Group& group) {
    return std::vector<int>{group.processes().begin(), group.processes().end()};
  };
  if (other == nullptr) return list(*own);
  std::vector<int> all = list(own_first ? *own : *other);
  const std::span<const int> rest = (own_first ? *other : *own).processes();
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Communicator::Communicator(MPI_Comm predefined, std::uint32_t id, Sides sides, Vci& vci)
    : Object(kKind, predefined == MPI_COMM_NULL ? 0 : reinterpret_cast<std::uintptr_t>(predefined)),
      buffer(vci.vcis()),
      id_(id),
      sides_(std::move(sides)),
      peers_(peers_on(vci, sides_)),
      vci_(vci),
      engine_(vci.engine()) {
  // Two context ids per communicator.
  user_.context = 2 * id;
  collective_.context = 2 * id + 1;
  user_.rank = sides_.own->rank();
  collective_.collective = true;
  collective_.peers = peers_;
  if (is_inter()) {
    const auto own_size = static_cast<std::size_t>(sides_.own->size());
    const auto other_size = static_cast<std::size_t>(sides_.other->size());
    // Messages of the program go to the remote group only; the channel of collectives has the ranks of both groups.
    user_.has_self = false;
    user_.peers = collective_.peers.subspan(sides_.own_first ? own_size : 0, other_size);
    collective_.rank = user_.rank + (sides_.own_first ? 0 : static_cast<int>(other_size));
  } else {
    user_.peers = collective_.peers;
    collective_.rank = user_.rank;
  }
  // open_channel() and close_channel() take the lock of the engine.
  engine_.open_channel(user_);
  engine_.open_channel(collective_);
  if (is_predefined()) handle::set_builtin(*this);
}

Communicator::~Communicator() {
  if (is_predefined()) handle::clear_builtin(*this);
  engine_.close_channel(user_);
  engine_.close_channel(collective_);
}

bool Communicator::busy() const noexcept {
  const am::Lock::Guard guard{engine_.lock()};
  return user_.users + collective_.users != 0;
}

}  // namespace mpi_shim::comm
