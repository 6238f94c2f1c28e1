// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation/creation.hpp"

#include <algorithm>
#include <vector>

#include "mpi_shim/comm/creation/agreement.hpp"

namespace mpi_shim::comm {
namespace {

/// The request of MPI_Comm_idup: runs the agreement inside progress, then makes the communicator in a slot whose handle
/// the call has already returned.  Writing the handle later would need a variable of the program that outlives the
/// call, and the variable of Fortran's handle conversion does not.
class Duplication final : public Request {
 public:
  Duplication(Communicators& communicators, Communicator& parent, handle::Slot<Communicator> slot)
      : Request(kActions, &parent.engine()),
        communicators_(communicators),
        parent_(parent),
        slot_(std::move(slot)),
        errhandler_(parent.errhandler.get()),
        agreement_(communicators, Participants::of_all(parent)) {
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
      // This runs under the lock of the parent's VCI, so it uses that VCI: a thread must not take the lock of another.
      const Number number{agreement_.number().id, parent_.engine().vci()};
      Communicator& made = communicators_.create(std::move(slot_), number, parent_.sides());
      made.errhandler.set(errhandler_);
      made.topology = parent_.topology;
      made.attributes.take(attributes_);
    }
    finish();
  }

  void put_away() noexcept {
    attributes_.clear_all(MPI_COMM_NULL);  // not empty only after a failure: no communicator exists
    {
      const am::Lock::Guard guard{parent_.engine().lock()};
      --parent_.collective().users;
    }
    retire();
  }

  Communicators& communicators_;
  Communicator& parent_;
  handle::Slot<Communicator> slot_;
  const ErrhandlerRef errhandler_;              // of the parent when MPI_Comm_idup was called
  attribute::Attributes<MPI_Comm> attributes_;  // copied when MPI_Comm_idup was called
  IdAgreement agreement_;
};

const Request::Actions Duplication::kActions{act<&Duplication::begin_agreeing>, act<&Duplication::put_away>};

/// The arguments of split() of one process, exchanged among all processes of both sides.
struct Choice {
  std::int64_t color;
  std::int64_t key;
};

/// The processes of one side with this colour, ordered by key.
std::shared_ptr<const Group> chosen(Communicators& communicators, const Group& side, std::span<const Choice> choices,
                                    std::int64_t color) {
  std::vector<int> ranks;
  for (int rank = 0; rank < side.size(); ++rank) {
    if (choices[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  for (int& rank : ranks) rank = side.process(rank);  // convert ranks to process numbers
  return std::make_shared<const Group>(std::move(ranks), communicators.job().rank());
}

}  // namespace

Made duplicate(Communicators& communicators, Communicator& parent) {
  const Made made = make_agreed(communicators, Participants::of_all(parent), parent.sides(), parent.errhandler.get());
  if (made.error != MPI_SUCCESS) return made;
  made.comm->topology = parent.topology;
  if (const int error = parent.attributes.copy_to(parent.mpi_handle(), made.comm->attributes); error != MPI_SUCCESS) {
    made.comm->attributes.clear_all(made.comm->mpi_handle());
    communicators.free(*made.comm);
    return {error};
  }
  return made;
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

Made split(Communicators& communicators, Communicator& parent, int color, int key) {
  std::vector<Choice> choices;  // by rank in the collectives' channel
  if (const int error = Participants::of_all(parent).exchange(Choice{color, key}, choices); error != MPI_SUCCESS)
    return {error};
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
  if (sides.other != nullptr && sides.other->size() == 0) sides.own = nullptr;
  // All colours use one number: no process is in two of the new communicators.
  return make_agreed(communicators, Participants::of_all(parent), std::move(sides), parent.errhandler.get());
}

Made create(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group) {
  const bool member = group->rank() != MPI_UNDEFINED;
  if (parent.is_inter()) {
    // This process does not know the remote side's group, so each process contributes its rank in its own group.
    return split(communicators, parent, member ? 0 : MPI_UNDEFINED, member ? group->rank() : 0);
  }
  return make_agreed(communicators, Participants::of_all(parent), {member ? group : nullptr, nullptr},
                     parent.errhandler.get());
}

Made create_group(Communicators& communicators, Communicator& parent, const std::shared_ptr<const Group>& group,
                  int tag) {
  if (group->rank() == MPI_UNDEFINED) return {};
  std::vector<int> ranks;
  for (const int member : group->processes()) ranks.push_back(parent.group()->rank_of(member));
  const Participants participants{parent, {group->rank(), ranks}, private_tag(static_cast<std::uint32_t>(tag))};
  return make_agreed(communicators, participants, {group, nullptr}, parent.errhandler.get());
}

}  // namespace mpi_shim::comm
