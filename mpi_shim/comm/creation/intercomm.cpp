// SPDX-License-Identifier: Apache-2.0
// Creation of intercommunicators, and of communicators from groups without a parent.
#include <algorithm>
#include <functional>
#include <vector>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/comm/creation/agreement.hpp"
#include "mpi_shim/comm/creation/creation.hpp"

namespace mpi_shim::comm {
namespace {

/// A message: a header and then process numbers, with room for all processes of the job.
using Listing = std::vector<std::int64_t>;

p2p::Buffer buffer_of(Listing& words) { return p2p::Buffer::of_bytes(words.data(), words.size() * sizeof words[0]); }

/// The leaders exchange lists: number of members | number of the local communicator, 0: none | the members.
/// `tag` is combined with the numbers of both local communicators.  So concurrent calls of threads of one process get
/// different tags even if the program passed the same one.
int swap_members(Communicators& communicators, const Participants& leaders, int remote_leader, const Group& own,
                 std::uint32_t communicator, std::vector<int>& other, std::uint64_t& tag) {
  Listing mine{own.size(), communicator};
  mine.insert(mine.end(), own.processes().begin(), own.processes().end());
  Listing theirs(2 + static_cast<std::size_t>(communicators.job().size()));
  const int swapped = leaders.run([&](coll::Schedule& schedule) {
    schedule.receive(buffer_of(theirs), remote_leader);
    schedule.send(buffer_of(mine), remote_leader);
    schedule.end_round();
  });
  if (swapped != MPI_SUCCESS) return swapped;
  if (theirs[0] <= 0 || theirs[0] > communicators.job().size()) return MPI_ERR_INTERN;
  other.assign(theirs.begin() + 2, theirs.begin() + 2 + theirs[0]);
  const auto [low, high] = std::minmax(mine[1], theirs[1]);  // sorted, so that both sides compute the same
  for (const std::int64_t part : {low, high}) {
    tag = (tag ^ static_cast<std::uint64_t>(part)) * 0xbf58476d1ce4e5b9U;
    tag ^= tag >> 31;
  }
  return MPI_SUCCESS;
}

/// The leader broadcasts the result of swap_members() to its side: error | number of members | tag | the members.
int announce(Communicators& communicators, const Participants& own, int leader, int error, std::vector<int>& members,
             std::uint64_t& tag) {
  Listing words{error, static_cast<std::int64_t>(members.size()), static_cast<std::int64_t>(tag)};
  words.insert(words.end(), members.begin(), members.end());
  words.resize(3 + static_cast<std::size_t>(communicators.job().size()));
  const int failed = own.run([&](coll::Schedule& schedule) { coll::build_bcast(schedule, buffer_of(words), leader); });
  if (failed != MPI_SUCCESS) return failed;
  if (words[0] != MPI_SUCCESS) return static_cast<int>(words[0]);
  if (words[1] <= 0 || words[1] > communicators.job().size()) return MPI_ERR_INTERN;
  tag = static_cast<std::uint64_t>(words[2]);
  members.assign(words.begin() + 3, words.begin() + 3 + words[1]);
  return MPI_SUCCESS;
}

bool is_list_of_others(Communicators& communicators, const Group& own, const std::vector<int>& members) {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    return member >= 0 && member < communicators.job().size() && own.rank_of(member) == MPI_UNDEFINED;
  });
}

/// Makes the intercommunicator.  The agreement on its number uses MPI_COMM_WORLD, the only communicator that both sides
/// have in common; its ranks are the process numbers.
Made make_connected(Communicators& communicators, const Participants& own, const std::shared_ptr<const Group>& local,
                    int leader, int error, std::vector<int> members, std::uint64_t tag, ErrhandlerRef errhandler) {
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
  if (high != other_high) order.own_first = other_high;  // otherwise keep the order, which both sides have
  const auto group = std::make_shared<const Group>(order.processes(), communicators.job().rank());
  return make_agreed(communicators, Participants::of_all(parent), {group, nullptr}, parent.errhandler.get());
}

Made create_from_group(Communicators& communicators, const std::shared_ptr<const Group>& group, std::string_view tag,
                       ErrhandlerRef errhandler) {
  const std::vector<int> members{group->processes().begin(), group->processes().end()};
  const Participants participants{communicators.world(), {group->rank(), members}, private_tag(number_of(tag))};
  return make_agreed(communicators, participants, {group, nullptr}, std::move(errhandler));
}

Made connect_groups(Communicators& communicators, const std::shared_ptr<const Group>& local, int local_leader,
                    const std::shared_ptr<const Group>& remote, int remote_leader, std::string_view tag,
                    ErrhandlerRef errhandler) {
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
