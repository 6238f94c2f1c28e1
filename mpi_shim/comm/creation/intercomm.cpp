// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation/intercomm.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "mpi_shim/coll/algorithms/bcast.hpp"
#include "mpi_shim/coll/algorithms/gather.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/comm/creation/agreement.hpp"

namespace mpi_shim::comm {
namespace {

/// A part of a communicator whose members work together under one tag.
struct Part {
  Communicator& comm;
  coll::Team team;
  int tag;

  template <class Build>
  int run(Build&& build) const {
    coll::Schedule& schedule = comm.vci().scheduler().begin(comm, team, tag);
    build(schedule);
    return coll::run(schedule);
  }
};

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

/// The leaders tell each other who their members are.  `tag` becomes one that several threads of the same processes,
/// which may all have called with the same, do not share: their local communicators differ.
int swap_members(Communicators& communicators, const Part& leaders, int remote_leader, const Group& own,
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

/// The leader's list becomes everybody's; so does its error.
int announce(Communicators& communicators, const Part& own, int leader, int error, std::vector<int>& members,
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
int make_connected(Communicators& communicators, const Part& own, const std::shared_ptr<const Group>& local, int leader,
                   int error, std::vector<int> members, std::uint64_t tag, Communicator*& made) {
  if (const int failed = announce(communicators, own, leader, error, members, tag); failed != MPI_SUCCESS)
    return failed;
  if (!is_list_of_others(communicators, *local, members)) return MPI_ERR_GROUP;
  Sides sides{local, std::make_shared<const Group>(std::move(members), communicators.job().rank())};
  sides.own_first = sides.own->process(0) < sides.other->process(0);
  const std::vector<int> all = sides.processes();
  const int place = local->rank() + (sides.own_first ? 0 : sides.other->size());
  Number number;
  const Meeting meeting{communicators.world(), {place, all}, private_tag(tag)};
  if (const int failed = agree_on_number(communicators, meeting, number); failed != MPI_SUCCESS) return failed;
  const auto created = communicators.create(number, std::move(sides));
  if (!created) return MPI_ERR_NO_MEM;
  made = *created;
  return MPI_SUCCESS;
}

std::uint64_t number_of(std::string_view tag) { return std::hash<std::string_view>{}(tag); }

}  // namespace

int connect_sides(Communicators& communicators, Communicator& local, int local_leader, Communicator* peer,
                  int remote_leader, int tag, Communicator*& made) {
  std::uint64_t number = static_cast<std::uint32_t>(tag);
  std::vector<int> members;
  int error = MPI_SUCCESS;
  if (local.rank() == local_leader) {
    const Part leaders{*peer, peer->is_inter() ? peer->other_side() : peer->everybody(), private_tag(number)};
    error = swap_members(communicators, leaders, remote_leader, *local.group(), local.id(), members, number);
  }
  const Meeting own = Meeting::of_all(local);
  error = make_connected(communicators, {own.comm, own.team, own.tag}, local.group(), local_leader, error,
                         std::move(members), number, made);
  if (error == MPI_SUCCESS) made->errhandler.set(local.errhandler.get());
  return error;
}

int merge_sides(Communicators& communicators, Communicator& parent, bool high, Communicator*& made) {
  const Meeting meeting = Meeting::of_all(parent);
  std::vector<std::uint8_t> wishes(static_cast<std::size_t>(meeting.team.size()));
  wishes[static_cast<std::size_t>(meeting.team.rank())] = high ? 1 : 0;
  coll::Blocks blocks;
  for (std::uint8_t& wish : wishes) blocks.push_back(p2p::Buffer::of_bytes(&wish, 1));
  const int gathered = Part{parent, meeting.team, meeting.tag}.run(
      [&](coll::Schedule& schedule) { coll::build_allgather(schedule, std::nullopt, blocks); });
  if (gathered != MPI_SUCCESS) return gathered;
  Number number;
  if (const int error = agree_on_number(communicators, Meeting::of_all(parent), number); error != MPI_SUCCESS)
    return error;
  const bool other_high = wishes[static_cast<std::size_t>(parent.other_side().in_channel(0))] != 0;
  Sides order = parent.sides();
  if (high != other_high) order.own_first = other_high;  // otherwise any order will do that is the same on both sides
  const auto group = std::make_shared<const Group>(order.processes(), communicators.job().rank());
  const auto created = communicators.create(number, {group, nullptr});
  if (!created) return MPI_ERR_NO_MEM;
  made = *created;
  made->errhandler.set(parent.errhandler.get());
  return MPI_SUCCESS;
}

int create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                      Communicator*& made) {
  made = nullptr;
  const std::vector<int> members{group->processes().begin(), group->processes().end()};
  Number number;
  const Meeting meeting{communicators.world(), {group->rank(), members}, private_tag(number_of(tag))};
  if (const int error = agree_on_number(communicators, meeting, number); error != MPI_SUCCESS) return error;
  const auto created = communicators.create(number, {group, nullptr});
  if (!created) return MPI_ERR_NO_MEM;
  made = *created;
  return MPI_SUCCESS;
}

int connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                   const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                   Communicator*& made) {
  const std::vector<int> own_members{local->processes().begin(), local->processes().end()};
  std::uint64_t number = number_of(tag);
  const int message_tag = private_tag(number);
  const Part own{communicators.world(), {local->rank(), own_members}, message_tag};
  std::vector<int> members;
  int error = MPI_SUCCESS;
  if (local->rank() == local_leader) {
    const Part leaders{communicators.world(), communicators.world().everybody(), message_tag};
    error = swap_members(communicators, leaders, remote->process(remote_leader), *local, 0, members, number);
  }
  return make_connected(communicators, own, local, local_leader, error, std::move(members), number, made);
}

}  // namespace mpi_shim::comm
