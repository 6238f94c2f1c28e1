// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "mpi_shim/coll/gather.hpp"
#include "mpi_shim/coll/reduce.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/core/process.hpp"
#include "mpi_shim/datatype/predefined.hpp"

namespace mpi_shim::comm {
namespace {

/// The largest of all processes' values, for each of them.
template <std::size_t n>
int maximum(Communicator& comm, std::array<std::int64_t, n>& values) {
  static const datatype::Datatype& int64 = *datatype::predefined(reinterpret_cast<std::uintptr_t>(MPI_INT64_T));
  const p2p::Buffer buffer{values.data(), n, int64};
  return coll::run(comm, [&](coll::Schedule& schedule) {
    coll::build_allreduce(schedule, comm, buffer, buffer, *op::predefined(reinterpret_cast<std::uintptr_t>(MPI_MAX)));
  });
}

/// The processes agree on a number that none of them uses: usually the lowest free one is the same for all, and one
/// reduction says so.  Otherwise all try the largest proposal.  The number is reserved.
int agree_on_id(Process& process, Communicator& parent, std::uint32_t& id) {
  IdTable& ids = process.communicator_ids();
  std::uint32_t from = 0;
  for (;;) {
    std::uint32_t mine = 0;
    {
      const am::Lock::Guard guard{process.lock()};
      mine = ids.reserve_free(from);
    }
    std::array<std::int64_t, 2> bounds{mine, -std::int64_t{mine}};
    if (const int error = maximum(parent, bounds); error != MPI_SUCCESS) return error;
    const auto highest = static_cast<std::uint32_t>(bounds[0]);
    if (bounds[0] == -bounds[1]) {
      id = highest;
      return MPI_SUCCESS;
    }
    bool reserved = highest == mine;
    if (!reserved) {
      const am::Lock::Guard guard{process.lock()};
      ids.release(mine);
      reserved = ids.reserve(highest);
    }
    std::array<std::int64_t, 1> refused{reserved ? 0 : 1};
    if (const int error = maximum(parent, refused); error != MPI_SUCCESS) return error;
    if (refused[0] == 0) {
      id = highest;
      return MPI_SUCCESS;
    }
    if (reserved) {
      const am::Lock::Guard guard{process.lock()};
      ids.release(highest);
    }
    from = highest + 1;
  }
}

void give_up_id(Process& process, std::uint32_t id) {
  const am::Lock::Guard guard{process.lock()};
  process.communicator_ids().release(id);
}

int make(Process& process, Communicator& parent, std::uint32_t id, std::shared_ptr<const Group> group,
         Communicator*& made) {
  const auto created = process.create_communicator(id, std::move(group));
  if (!created) return MPI_ERR_NO_MEM;
  made = *created;
  made->errhandler = parent.errhandler;
  return MPI_SUCCESS;
}

}  // namespace

int duplicate(Process& process, Communicator& parent, Communicator*& made) {
  made = nullptr;
  std::uint32_t id = 0;
  if (const int error = agree_on_id(process, parent, id); error != MPI_SUCCESS) return error;
  const auto copy = process.create_communicator(id, parent.group());
  if (!copy) return MPI_ERR_NO_MEM;
  (*copy)->errhandler = parent.errhandler;
  (*copy)->cartesian = parent.cartesian;
  if (const int error = parent.attributes.copy_to(parent.mpi_handle(), (*copy)->attributes); error != MPI_SUCCESS) {
    process.free_communicator(**copy);
    return error;
  }
  made = *copy;
  return MPI_SUCCESS;
}

int split(Process& process, Communicator& parent, int color, int key, Communicator*& made) {
  made = nullptr;
  const auto size = static_cast<std::size_t>(parent.size());
  struct Choice {
    std::int64_t color;
    std::int64_t key;
  };
  static_assert(sizeof(Choice) == 2 * sizeof(std::int64_t), "sent as pairs of integers");
  std::vector<Choice> choices(size);
  choices[static_cast<std::size_t>(parent.rank())] = {color, key};
  coll::Blocks blocks;
  for (Choice& choice : choices) blocks.push_back(p2p::Buffer::of_bytes(&choice, sizeof choice));
  const int gathered = coll::run(
      parent, [&](coll::Schedule& schedule) { coll::build_allgather(schedule, parent, std::nullopt, blocks); });
  if (gathered != MPI_SUCCESS) return gathered;

  std::uint32_t id = 0;  // one for all colours: their processes never exchange messages on it
  if (const int error = agree_on_id(process, parent, id); error != MPI_SUCCESS) return error;
  if (color == MPI_UNDEFINED) {
    give_up_id(process, id);
    return MPI_SUCCESS;
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (choices[rank].color == color) ranks.push_back(static_cast<int>(rank));
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  for (int& rank : ranks) rank = parent.group()->process(rank);  // from here on numbers of processes
  return make(process, parent, id, std::make_shared<const Group>(std::move(ranks), process.rank()), made);
}

int create(Process& process, Communicator& parent, const std::shared_ptr<const Group>& group, Communicator*& made) {
  made = nullptr;
  std::uint32_t id = 0;
  if (const int error = agree_on_id(process, parent, id); error != MPI_SUCCESS) return error;
  if (group->rank() == MPI_UNDEFINED) {
    give_up_id(process, id);
    return MPI_SUCCESS;
  }
  return make(process, parent, id, group, made);
}

}  // namespace mpi_shim::comm
