// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/communicator.hpp — an MPI communicator: its groups, its VCI, and two channels of messages, one for the
// program and one for collectives.
// In an intercommunicator the program's channel has the processes of the remote group.  The collectives' channel has
// those of both groups, in the same order on both sides, so one schedule can send within a side and across.
// Owned by Communicators (communicators.hpp).  The constructor opens both channels in the Engine of its VCI, the
// destructor closes them.  Borrows the VCI.
// Threads: groups, peers and topology do not change.  errhandler, attributes and buffer have their own locks, name has
// none.  The program calls no two collectives at once, so host_team needs no lock.  The channels are under their VCI's
// lock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "mpi_shim/attribute/attributes.hpp"
#include "mpi_shim/comm/errhandler.hpp"
#include "mpi_shim/comm/group.hpp"
#include "mpi_shim/comm/team.hpp"
#include "mpi_shim/comm/topology.hpp"
#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"
#include "mpi_shim/p2p/engine.hpp"

namespace mpi_shim {
class Vci;
}
namespace mpi_shim::coll {
class HostTeam;
}

namespace mpi_shim::comm {

/// The processes of a communicator.
struct Sides {
  std::shared_ptr<const Group> own;    ///< the local group
  std::shared_ptr<const Group> other;  ///< the remote group; null: an intracommunicator
  bool own_first = true;  ///< the local group is first in processes(); processes of the remote group have the opposite

  /// All processes, those of the first side first.
  [[nodiscard]] std::vector<int> processes() const;
};

class Communicator final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::comm;

  /// `predefined`: MPI_COMM_WORLD or MPI_COMM_SELF; MPI_COMM_NULL for any other communicator.
  /// `id`: the number that its processes have agreed on.  `vci`: carries all its messages; its number is the same in
  /// all processes.
  Communicator(MPI_Comm predefined, std::uint32_t id, Sides sides, Vci& vci);
  ~Communicator();

  [[nodiscard]] MPI_Comm mpi_handle() const noexcept { return handle::to_handle<MPI_Comm>(*this); }
  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
  [[nodiscard]] int rank() const noexcept { return user_.rank; }
  [[nodiscard]] int size() const noexcept { return sides_.own->size(); }
  /// The number of possible destinations of a message: for an intercommunicator the size of the remote group.
  [[nodiscard]] int remote_size() const noexcept { return static_cast<int>(user_.peers.size()); }
  [[nodiscard]] bool is_inter() const noexcept { return sides_.other != nullptr; }
  [[nodiscard]] const Sides& sides() const noexcept { return sides_; }
  [[nodiscard]] const std::shared_ptr<const Group>& group() const noexcept { return sides_.own; }
  [[nodiscard]] p2p::Peer& peer(int rank) const noexcept { return *user_.peers[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Vci& vci() const noexcept { return vci_; }
  [[nodiscard]] p2p::Engine& engine() const noexcept { return engine_; }

  // --- Teams on the collectives' channel.  This process has no rank (-1) in other_side().

  [[nodiscard]] coll::Team own_side() const noexcept { return {rank(), size(), collective_.rank - rank()}; }
  [[nodiscard]] coll::Team other_side() const noexcept { return {-1, remote_size(), sides_.own_first ? size() : 0}; }
  [[nodiscard]] coll::Team all_processes() const noexcept {
    return {collective_.rank, static_cast<int>(peers_.size())};
  }

  /// The program's messages.
  [[nodiscard]] p2p::Channel& user() noexcept { return user_; }
  /// The messages of collectives.
  [[nodiscard]] p2p::Channel& collective() noexcept { return collective_; }
  /// A tag for the next collective, not negative; equal in all processes, which call collectives in the same order.
  /// Requires: the caller holds the Engine's lock.
  int next_collective_tag() noexcept {
    collective_tag_ = (collective_tag_ + 1) & 0x7fffffff;
    return collective_tag_;
  }

  /// Whether a request, message or schedule still uses one of its channels.  Takes the Engine's lock.
  [[nodiscard]] bool busy() const noexcept;

  ErrhandlerSlot errhandler;
  std::string name;
  attribute::Attributes<MPI_Comm> attributes;
  p2p::AttachedBuffer buffer;                 ///< of MPI_Comm_attach_buffer; Process::buffer() serves if none is there
  std::shared_ptr<const Topology> topology;   ///< null: no topology
  std::shared_ptr<coll::HostTeam> host_team;  ///< null: none; made by HostTeam::for_collective()
  std::uint32_t host_team_uses = 0;  ///< blocking collectives until host_team was made; HostTeam::for_collective()
  /// The topology if it is a T; else null.
  template <class T>
  [[nodiscard]] const T* topology_as() const noexcept {
    return std::get_if<T>(topology.get());
  }

 private:
  const std::uint32_t id_;
  const Sides sides_;
  const std::vector<p2p::Peer*> peers_;
  Vci& vci_;
  p2p::Engine& engine_;
  p2p::Channel user_;
  p2p::Channel collective_;
  int collective_tag_ = 0;
};

}  // namespace mpi_shim::comm
