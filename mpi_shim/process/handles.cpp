// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/handles.hpp"

namespace mpi_shim {
namespace {

using comm::Errhandler;
using comm::Group;

const std::shared_ptr<const Group>& empty_group() {
  static const auto empty = std::make_shared<const Group>(std::vector<int>{}, MPI_PROC_NULL);
  return empty;
}

}  // namespace

std::shared_ptr<const Group> find_group(MPI_Group value) {
  if (value == MPI_GROUP_EMPTY) return empty_group();
  const auto* object = handle::find<GroupObject>(value);
  return object != nullptr ? object->group : nullptr;
}

MPI_Group new_handle(std::shared_ptr<const Group> group) {
  if (group->size() == 0) return MPI_GROUP_EMPTY;
  auto object = handle::create<GroupObject>(std::move(group));
  return object ? handle::to_handle<MPI_Group>(*object->detach()) : MPI_GROUP_NULL;  // owned by the program
}

Errhandler* find_errhandler(MPI_Errhandler value) {
  using Kind = Errhandler::Kind;
  static Errhandler fatal{MPI_ERRORS_ARE_FATAL, Kind::fatal};
  static Errhandler abort{MPI_ERRORS_ABORT, Kind::abort};
  static Errhandler returning{MPI_ERRORS_RETURN, Kind::returning};
  for (Errhandler* const one : {&fatal, &abort, &returning}) {
    if (value == handle::to_handle<MPI_Errhandler>(*one)) return one;
  }
  return handle::find<Errhandler>(value);
}

}  // namespace mpi_shim
