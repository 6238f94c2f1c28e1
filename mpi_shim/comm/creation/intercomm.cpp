// SPDX-License-Identifier: Apache-2.0
// Intercommunicators, and communicators out of groups alone.
#include <algorithm>
#include <functional>
#include <vector>

#include "mpi_shim/coll/algorithms/bcast.hpp"
#include "mpi_shim/comm/creation/agreement.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::comm {
namespace {

template <class T>
p2p::Buffer buffer_of(std::vector<T>& values) {
  return p2p::Buffer::of_bytes(values.data(), values.size() * sizeof(T));
}

/// What the leader found out about the other side, before its members' numbers.
struct Announcement {
  std::int32_t error;
  std::int32_t size;
  std::uint64_t tag;
};

/// What one leader tells the other before that.
struct Side {
  std::int32_t size;
  std::uint32_t communicator;  ///< number of the local one, 0 without one
};

/// The leaders exchange the lists of their members.  `tag` becomes one that several threads of the same processes,
/// which may all have called with the same, do not share: their local communicators differ.
int swap_members(Communicators& communicators, const Participants& leaders, int remote_leader, const Group& own,
                 std::uint32_t communicator, std::vector<int>& other, std::uint64_t& tag) {
  Side mine{own.size(), communicator};
  Side theirs{};
  const int swapped_sizes = leaders.run([&](coll::Schedule& schedule) {
    schedule.receive(p2p::Buffer::of_bytes(&theirs, sizeof theirs), remote_leader);
    schedule.send(p2p::Buffer::of_bytes(&mine, sizeof mine), remote_leader);
    schedule.end_round();
  });
  if (swapped_sizes != MPI_SUCCESS) return swapped_sizes;
  if (theirs.size <= 0 || theirs.size > communicators.job().size()) return MPI_ERR_INTERN;
  const auto [low, high] = std::minmax(mine.communicator, theirs.communicator);  // the same on both sides
  for (const std::uint64_t part : {std::uint64_t{low}, std::uint64_t{high}}) {
    tag = (tag ^ part) * 0xbf58476d1ce4e5b9U;
    tag ^= tag >> 31;
  }
  other.resize(static_cast<std::size_t>(theirs.size));
  return leaders.run([&](coll::Schedule& schedule) {
    const std::span<const int> members = own.processes();
    schedule.receive(buffer_of(other), remote_leader);
    schedule.send(p2p::Buffer::of_bytes(members.data(), members.size_bytes()), remote_leader);
    schedule.end_round();
  });
}

/// Broadcasts the leader's list and its error to its side.
int announce(Communicators& communicators, const Participants& own, int leader, int error, std::vector<int>& members,
             std::uint64_t& tag) {
  Announcement head{error, static_cast<std::int32_t>(members.size()), tag};
  const auto broadcast = [&](const p2p::Buffer& buffer) {
    return own.run([&](coll::Schedule& schedule) { coll::build_bcast(schedule, buffer, leader); });
  };
  if (const int failed = broadcast(p2p::Buffer::of_bytes(&head, sizeof head)); failed != MPI_SUCCESS) return failed;
  if (head.error != MPI_SUCCESS) return head.error;
  if (head.size <= 0 || head.size > communicators.job().size()) return MPI_ERR_INTERN;
  members.resize(static_cast<std::size_t>(head.size));
  tag = head.tag;
  return broadcast(buffer_of(members));
}

bool is_list_of_others(Communicators& communicators, const Group& own, const std::vector<int>& members) {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    return member >= 0 && member < communicators.job().size() && own.rank_of(member) == MPI_UNDEFINED;
  });
}

/// Both sides agree on a number.  They have no communicator in common but the world's, whose ranks are the processes.
Made make_connected(Communicators& communicators, const Participants& own, const std::shared_ptr<const Group>& local,
                    int leader, int error, std::vector<int> members, std::uint64_t tag,
                    std::shared_ptr<const Errhandler> errhandler) {
  if (const int failed = announce(communicators, own, leader, error, members, tag); failed != MPI_SUCCESS)
    return {failed};
  if (!is_list_of_others(communicators, *local, members)) return {MPI_ERR_GROUP};
  Sides sides{local, std::make_shared<const Group>(std::move(members), communicators.job().rank())};
  sides.own_first = sides.own->process(0) < sides.other->process(0);
  const std::vector<int> all = sides.processes();
  const int place = local->rank() + (sides.own_first ? 0 : sides.other->size());
  const Participants participants{communicators.world(), {place, all}, private_tag(tag)};
  return make_agreed(communicators, participants, std::move(sides), std::move(errhandler));
}

std::uint64_t number_of(std::string_view tag) { return std::hash<std::string_view>{}(tag); }

}  // namespace

Made connect_sides(Communicators& communicators, Communicator& local, int local_leader, Communicator* peer,
                   int remote_leader, int tag) {
  std::uint64_t number = static_cast<std::uint32_t>(tag);
  std::vector<int> members;
  int error = MPI_SUCCESS;
  if (local.rank() == local_leader) {
    const Participants leaders{*peer, peer->is_inter() ? peer->other_side() : peer->all_processes(),
                               private_tag(number)};
    error = swap_members(communicators, leaders, remote_leader, *local.group(), local.id(), members, number);
  }
  return make_connected(communicators, Participants::of_all(local), local.group(), local_leader, error,
                        std::move(members), number, local.errhandler.get());
}

Made merge_sides(Communicators& communicators, Communicator& parent, bool high) {
  std::vector<std::uint8_t> wishes;
  const auto mine = static_cast<std::uint8_t>(high);
  if (const int error = Participants::of_all(parent).exchange(mine, wishes); error != MPI_SUCCESS) return {error};
  const bool other_high = wishes[static_cast<std::size_t>(parent.other_side().in_channel(0))] != 0;
  Sides order = parent.sides();
  if (high != other_high) order.own_first = other_high;  // otherwise any order will do that is the same on both sides
  const auto group = std::make_shared<const Group>(order.processes(), communicators.job().rank());
  return make_agreed(communicators, Participants::of_all(parent), {group, nullptr}, parent.errhandler.get());
}

Made create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                       std::shared_ptr<const Errhandler> errhandler) {
  const std::vector<int> members{group->processes().begin(), group->processes().end()};
  const Participants participants{communicators.world(), {group->rank(), members}, private_tag(number_of(tag))};
  return make_agreed(communicators, participants, {group, nullptr}, std::move(errhandler));
}

Made connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                    const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                    std::shared_ptr<const Errhandler> errhandler) {
  const std::vector<int> own_members{local->processes().begin(), local->processes().end()};
  std::uint64_t number = number_of(tag);
  const int message_tag = private_tag(number);
  const Participants own{communicators.world(), {local->rank(), own_members}, message_tag};
  std::vector<int> members;
  int error = MPI_SUCCESS;
  if (local->rank() == local_leader) {
    const Participants leaders{communicators.world(), communicators.world().all_processes(), message_tag};
    error = swap_members(communicators, leaders, remote->process(remote_leader), *local, 0, members, number);
  }
  return make_connected(communicators, own, local, local_leader, error, std::move(members), number,
                        std::move(errhandler));
}

}  // namespace mpi_shim::comm
