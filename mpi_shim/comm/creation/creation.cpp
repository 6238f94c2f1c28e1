// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation/creation.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "mpi_shim/coll/algorithms/gather.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/comm/creation/agreement.hpp"

namespace mpi_shim::comm {
namespace {

std::shared_ptr<const Group> new_group(Communicators& communicators, std::vector<int> processes) {
  return std::make_shared<const Group>(std::move(processes), communicators.job().rank());
}

int make(Communicators& communicators, const Communicator& parent, const Number& number, Sides sides,
         Communicator*& made) {
  const auto created = communicators.create(number, std::move(sides));
  if (!created) return MPI_ERR_NO_MEM;
  made = *created;
  made->errhandler.set(parent.errhandler.get());
  return MPI_SUCCESS;
}

/// MPI_Comm_idup: agrees while others progress, then makes the communicator.  Its handle is told at the call: a
/// variable that is written later would have to outlive it, which Fortran's conversion of handles does not.
class Duplication final : public Request {
 public:
  Duplication(Communicators& communicators, Communicator& parent, handle::Slot<Communicator> slot)
      : Request(kActions, &parent.engine()),
        communicators_(communicators),
        parent_(parent),
        slot_(std::move(slot)),
        agreement_(communicators, Meeting::of_all(parent)) {
    const am::Lock::Guard guard{parent_.engine().lock()};
    ++parent_.collective().users;
  }

  attribute::Attributes<MPI_Comm>& attributes() noexcept { return attributes_; }

 private:
  static const Actions kActions;

  void begin_agreeing() noexcept {
    begin();
    agreement_.start({[](void* self, IdAgreement&) noexcept { static_cast<Duplication*>(self)->agreed(); }, this});
  }

  void agreed() noexcept {
    outcome_.error = agreement_.error();
    if (outcome_.error == MPI_SUCCESS) {
      // We are inside of the parent's VCI, and must not ask for another one's lock.
      const Number number{agreement_.number().id, parent_.engine().vci()};
      Communicator& made = communicators_.create(std::move(slot_), number, parent_.sides());
      made.errhandler.set(parent_.errhandler.get());
      made.topology = parent_.topology;
      made.attributes.take(attributes_);
    }
    finish();
  }

  void put_away() noexcept {
    attributes_.clear_all(MPI_COMM_NULL);  // after a failure: of a communicator that there never was
    {
      const am::Lock::Guard guard{parent_.engine().lock()};
      --parent_.collective().users;
    }
    retire();
  }

  Communicators& communicators_;
  Communicator& parent_;
  handle::Slot<Communicator> slot_;
  attribute::Attributes<MPI_Comm> attributes_;  // as they were at the call
  IdAgreement agreement_;
};

const Request::Actions Duplication::kActions{
    [](Request& self) noexcept { static_cast<Duplication&>(self).begin_agreeing(); },
    [](Request& self) noexcept { static_cast<Duplication&>(self).put_away(); },
    nullptr,
};

/// What each process of both sides tells the others when a communicator is divided.
struct Choice {
  std::int64_t color;
  std::int64_t key;
};
static_assert(sizeof(Choice) == 2 * sizeof(std::int64_t), "sent as pairs of integers");

/// `mine` and all others' choices, by rank in the collectives' channel.
int exchange_choices(Communicator& parent, const Choice& mine, std::vector<Choice>& all) {
  const Meeting meeting = Meeting::of_all(parent);
  all.resize(static_cast<std::size_t>(meeting.team.size()));
  all[static_cast<std::size_t>(meeting.team.rank())] = mine;
  coll::Blocks blocks;
  for (Choice& choice : all) blocks.push_back(p2p::Buffer::of_bytes(&choice, sizeof choice));
  coll::Schedule& schedule = parent.vci().scheduler().begin(parent, meeting.team, meeting.tag);
  coll::build_allgather(schedule, std::nullopt, blocks);
  return coll::run(schedule);
}

/// Those of one side with the colour, in the new order.
std::shared_ptr<const Group> chosen(Communicators& communicators, const Group& side, std::span<const Choice> choices,
                                    std::int64_t color) {
  std::vector<int> ranks;
  for (int rank = 0; rank < side.size(); ++rank) {
    if (choices[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  for (int& rank : ranks) rank = side.process(rank);  // from here on numbers of processes
  return new_group(communicators, std::move(ranks));
}

}  // namespace

int duplicate(Communicators& communicators, Communicator& parent, Communicator*& made) {
  made = nullptr;
  Number number;
  if (const int error = agree_on_number(communicators, Meeting::of_all(parent), number); error != MPI_SUCCESS)
    return error;
  Communicator* copy = nullptr;
  if (const int error = make(communicators, parent, number, parent.sides(), copy); error != MPI_SUCCESS) return error;
  copy->topology = parent.topology;
  if (const int error = parent.attributes.copy_to(parent.mpi_handle(), copy->attributes); error != MPI_SUCCESS) {
    copy->attributes.clear_all(copy->mpi_handle());
    communicators.free(*copy);
    return error;
  }
  made = copy;
  return MPI_SUCCESS;
}

int start_duplicating(Communicators& communicators, Communicator& parent, MPI_Comm* newcomm, Request*& request) {
  attribute::Attributes<MPI_Comm> attributes;
  if (const int error = parent.attributes.copy_to(parent.mpi_handle(), attributes); error != MPI_SUCCESS) {
    attributes.clear_all(MPI_COMM_NULL);
    return error;
  }
  auto slot = handle::Slot<Communicator>::reserve();
  if (!slot) return MPI_ERR_NO_MEM;
  const auto handle = reinterpret_cast<MPI_Comm>(slot->handle());
  auto duplication = handle::create<Duplication>(communicators, parent, std::move(*slot));
  if (!duplication) return MPI_ERR_NO_MEM;
  (*duplication)->attributes().take(attributes);
  *newcomm = handle;
  request = duplication->detach();  // the program's; ends with put_away()
  request->set_comm(parent.mpi_handle());
  request->start();
  return MPI_SUCCESS;
}

int split(Communicators& communicators, Communicator& parent, int color, int key, Communicator*& made) {
  made = nullptr;
  std::vector<Choice> choices;
  if (const int error = exchange_choices(parent, {color, key}, choices); error != MPI_SUCCESS) return error;
  Number number;  // one for all colours: their processes never exchange messages on it
  if (const int error = agree_on_number(communicators, Meeting::of_all(parent), number); error != MPI_SUCCESS)
    return error;
  const auto of_side = [&](const coll::Team& side) {
    return std::span{choices}.subspan(static_cast<std::size_t>(side.in_channel(0)),
                                      static_cast<std::size_t>(side.size()));
  };
  Sides sides{nullptr, nullptr, parent.sides().own_first};
  if (color != MPI_UNDEFINED) {
    sides.own = chosen(communicators, *parent.group(), of_side(parent.own_side()), color);
    if (parent.is_inter())
      sides.other = chosen(communicators, *parent.sides().other, of_side(parent.other_side()), color);
  }
  if (sides.own == nullptr || (sides.other != nullptr && sides.other->size() == 0)) {
    give_up(communicators, number);
    return MPI_SUCCESS;
  }
  return make(communicators, parent, number, std::move(sides), made);
}

int create(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group,
           Communicator*& made) {
  made = nullptr;
  if (parent.is_inter()) {
    // The other side's group is not known here: each process says which place it has in its own.
    const bool member = group->rank() != MPI_UNDEFINED;
    return split(communicators, parent, member ? 0 : MPI_UNDEFINED, member ? group->rank() : 0, made);
  }
  Number number;
  if (const int error = agree_on_number(communicators, Meeting::of_all(parent), number); error != MPI_SUCCESS)
    return error;
  if (group->rank() == MPI_UNDEFINED) {
    give_up(communicators, number);
    return MPI_SUCCESS;
  }
  return make(communicators, parent, number, {group, nullptr}, made);
}

int create_group(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group, int tag,
                 Communicator*& made) {
  made = nullptr;
  if (group->rank() == MPI_UNDEFINED) return MPI_SUCCESS;
  std::vector<int> ranks;
  for (const int member : group->processes()) ranks.push_back(parent.group()->rank_of(member));
  Number number;
  const Meeting meeting{parent, {group->rank(), ranks}, private_tag(static_cast<std::uint32_t>(tag))};
  if (const int error = agree_on_number(communicators, meeting, number); error != MPI_SUCCESS) return error;
  return make(communicators, parent, number, {group, nullptr}, made);
}

}  // namespace mpi_shim::comm
