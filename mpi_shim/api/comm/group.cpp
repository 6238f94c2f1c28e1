// SPDX-License-Identifier: Apache-2.0
// MPI_Group_*.  Call raises the first failed check on the default error handler and keeps its error code.
#include <string>

#include "mpi_shim/api/forward.hpp"

namespace mpi_shim::api {
namespace {

/// Makes a group, stores its handle (MPI_GROUP_EMPTY if there is no process) and returns what the MPI function returns.
/// `processes`: their ranks in the job, in the order of the group's ranks.
int store_new_group(Call& call, std::vector<int> processes, MPI_Group* newgroup) {
  *newgroup = new_handle(std::make_shared<const comm::Group>(std::move(processes), call.process().job().rank()));
  return call.finish(*newgroup == MPI_GROUP_NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS);
}

/// Stores in *newgroup the group that `operation` makes of group1 and group2.
int combine(Call& call, MPI_Group group1, MPI_Group group2, MPI_Group* newgroup,
            std::vector<int> (*operation)(const comm::Group&, const comm::Group&)) {
  const auto first = call.group(group1, "group1");
  const auto second = call.group(group2, "group2");
  return store_new_group(call, operation(*first, *second), newgroup);
}

enum class Choice { include, exclude };

int choose(Call& call, const comm::Group& group, const std::vector<int>& ranks, Choice choice, MPI_Group* newgroup) {
  std::vector<bool> named(static_cast<std::size_t>(group.size()));
  std::vector<int> processes;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= group.size()) {
      call.fail(MPI_ERR_RANK, "rank " + std::to_string(rank) + " is not in the group");
    }
    if (named[static_cast<std::size_t>(rank)]) {
      call.fail(MPI_ERR_RANK, "rank " + std::to_string(rank) + " is named twice");
    }
    named[static_cast<std::size_t>(rank)] = true;
    if (choice == Choice::include) processes.push_back(group.process(rank));
  }
  for (int rank = 0; choice == Choice::exclude && rank < group.size(); ++rank) {
    if (!named[static_cast<std::size_t>(rank)]) processes.push_back(group.process(rank));
  }
  return store_new_group(call, std::move(processes), newgroup);
}

int choose_list(Call& call, MPI_Group handle, int n, const int ranks[], MPI_Group* newgroup, Choice choice) {
  const auto group = call.group(handle);
  if (n < 0) call.fail_count(n, "n");
  if (n > 0) call.pointer(ranks, "ranks");
  // Some rank would occur twice.  Refused before `ranks` is read: the array may have fewer than n elements.
  if (n > group->size()) {
    call.fail(MPI_ERR_RANK, "argument n is " + std::to_string(n) + ", but the group has only " +
                                std::to_string(group->size()) + " processes");
  }
  return choose(call, *group, std::vector<int>(ranks, ranks + n), choice, newgroup);
}

int choose_ranges(Call& call, MPI_Group handle, int n, int ranges[][3], MPI_Group* newgroup, Choice choice) {
  const auto group = call.group(handle);
  if (n < 0) call.fail_count(n, "n");
  if (n > 0) call.pointer(ranges, "ranges");
  std::vector<int> ranks;
  for (int i = 0; i < n; ++i) {
    const auto [first, last, stride] = std::array{ranges[i][0], ranges[i][1], ranges[i][2]};
    if (stride == 0) call.fail(MPI_ERR_ARG, "range " + std::to_string(i) + " has stride 0");
    for (std::int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) {
      if (rank < 0 || rank >= group->size()) {
        call.fail(MPI_ERR_RANK,
                  "rank " + std::to_string(rank) + " of range " + std::to_string(i) + " is not in the group");
      }
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return choose(call, *group, ranks, choice, newgroup);
}

}  // namespace

OPAL_MPI_CALL(Group_size, (Call & call, MPI_Group group, int* size)) {
  return call.answer(size, call.group(group)->size());
}

OPAL_MPI_CALL(Group_rank, (Call & call, MPI_Group group, int* rank)) {
  return call.answer(rank, call.group(group)->rank());
}

OPAL_MPI_CALL(Group_free, (Call & call, MPI_Group* group)) {
  call.group(*group);
  // MPI_GROUP_EMPTY is valid but has no object.  Communicators keep the group itself; only the handle ends.
  if (auto* object = handle::find<GroupObject>(*group)) object->retire();
  *group = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Group_compare, (Call & call, MPI_Group group1, MPI_Group group2, int* result)) {
  const auto first = call.group(group1, "group1");
  const auto second = call.group(group2, "group2");
  return call.answer(result, first->compare(*second));
}

OPAL_MPI_CALL(Group_translate_ranks,
              (Call & call, MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[])) {
  const auto from = call.group(group1, "group1");
  const auto to = call.group(group2, "group2");
  if (n < 0) call.fail_count(n, "n");
  if (n > 0) call.pointer(ranks1, "ranks1");
  if (n > 0) call.pointer(ranks2, "ranks2");
  for (int i = 0; i < n; ++i) {
    if (ranks1[i] == MPI_PROC_NULL) {
      ranks2[i] = MPI_PROC_NULL;
    } else if (ranks1[i] < 0 || ranks1[i] >= from->size()) {
      call.fail(MPI_ERR_RANK, "rank " + std::to_string(ranks1[i]) + " is not in argument group1");
    } else {
      ranks2[i] = to->rank_of(from->process(ranks1[i]));
    }
  }
  return MPI_SUCCESS;
}

// A helper gets the Call, the arguments, then the last argument of the macro (api/forward.hpp).
OPAL_MPI_FORWARD(Group_union, combine, comm::union_of)
OPAL_MPI_FORWARD(Group_intersection, combine, comm::intersection_of)
OPAL_MPI_FORWARD(Group_difference, combine, comm::difference_of)
OPAL_MPI_FORWARD(Group_incl, choose_list, Choice::include)
OPAL_MPI_FORWARD(Group_excl, choose_list, Choice::exclude)
OPAL_MPI_FORWARD(Group_range_incl, choose_ranges, Choice::include)
OPAL_MPI_FORWARD(Group_range_excl, choose_ranges, Choice::exclude)

}  // namespace mpi_shim::api
