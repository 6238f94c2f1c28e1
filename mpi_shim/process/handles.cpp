// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/handles.hpp"

#include <mutex>

namespace mpi_shim {
namespace {

using comm::Errhandler;
using comm::Group;

std::mutex errhandler_objects;  // guards Errhandler::object and ErrhandlerObject::uses

const std::shared_ptr<const Group>& empty_group() {
  static const auto empty = std::make_shared<const Group>(std::vector<int>{}, MPI_PROC_NULL);
  return empty;
}

const std::shared_ptr<const Errhandler>& predefined(Errhandler::Kind kind) {
  static const auto fatal = std::make_shared<const Errhandler>(Errhandler{Errhandler::Kind::fatal, nullptr});
  static const auto abort = std::make_shared<const Errhandler>(Errhandler{Errhandler::Kind::abort, nullptr});
  static const auto returning = std::make_shared<const Errhandler>(Errhandler{Errhandler::Kind::returning, nullptr});
  if (kind == Errhandler::Kind::fatal) return fatal;
  return kind == Errhandler::Kind::abort ? abort : returning;
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

std::shared_ptr<const Errhandler> find_errhandler(MPI_Errhandler value) {
  if (value == MPI_ERRORS_ARE_FATAL) return predefined(Errhandler::Kind::fatal);
  if (value == MPI_ERRORS_ABORT) return predefined(Errhandler::Kind::abort);
  if (value == MPI_ERRORS_RETURN) return predefined(Errhandler::Kind::returning);
  const auto* object = handle::find<ErrhandlerObject>(value);
  return object != nullptr ? object->errhandler : nullptr;
}

MPI_Errhandler new_handle(std::shared_ptr<const Errhandler> errhandler) {
  switch (errhandler->kind) {
    case Errhandler::Kind::fatal: return MPI_ERRORS_ARE_FATAL;
    case Errhandler::Kind::abort: return MPI_ERRORS_ABORT;
    case Errhandler::Kind::returning: return MPI_ERRORS_RETURN;
    case Errhandler::Kind::comm_function:
    case Errhandler::Kind::win_function: break;
  }
  const std::lock_guard guard{errhandler_objects};
  if (errhandler->object != nullptr) {
    ++errhandler->object->uses;
    return handle::to_handle<MPI_Errhandler>(*errhandler->object);
  }
  auto made = handle::create<ErrhandlerObject>(std::move(errhandler));
  if (!made) return MPI_ERRHANDLER_NULL;
  ErrhandlerObject& object = *made->detach();  // owned by the program
  object.errhandler->object = &object;
  return handle::to_handle<MPI_Errhandler>(object);
}

void free_handle(ErrhandlerObject& object) noexcept {
  const std::lock_guard guard{errhandler_objects};
  if (--object.uses != 0) return;
  object.errhandler->object = nullptr;
  object.retire();
}

}  // namespace mpi_shim
