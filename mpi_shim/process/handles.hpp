// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/handles.hpp — the objects behind handles of groups and error handlers, which are values that several
// objects share.  Threads: the values do not change.
#pragma once
#include <memory>

#include "mpi_shim/comm/errhandler.hpp"
#include "mpi_shim/comm/group.hpp"
#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/handle/table.hpp"

namespace mpi_shim {

/// A group that a program holds.
struct GroupObject final : handle::Object {
  static constexpr handle::Kind kKind = handle::Kind::group;
  explicit GroupObject(std::shared_ptr<const comm::Group> what) noexcept : Object(kKind), group(std::move(what)) {}
  const std::shared_ptr<const comm::Group> group;
};

/// Null when the handle is no group.
std::shared_ptr<const comm::Group> find_group(MPI_Group handle);
/// A new handle, to be given back by MPI_Group_free; MPI_GROUP_EMPTY for an empty group, MPI_GROUP_NULL without memory.
MPI_Group new_handle(std::shared_ptr<const comm::Group> group);

/// An error handler that a program holds.  There is at most one for an Errhandler, so that the handle which a program
/// gets back is the one that it has set.
struct ErrhandlerObject final : handle::Object {
  static constexpr handle::Kind kKind = handle::Kind::errhandler;
  explicit ErrhandlerObject(std::shared_ptr<const comm::Errhandler> what) noexcept
      : Object(kKind), errhandler(std::move(what)) {}
  const std::shared_ptr<const comm::Errhandler> errhandler;
  unsigned uses = 1;  ///< as many as MPI_Errhandler_free has to be called; process/handles.cpp
};

/// Null when the handle is no error handler.
std::shared_ptr<const comm::Errhandler> find_errhandler(MPI_Errhandler handle);
/// A predefined handle, the one that there is already or a new one, to be given back by MPI_Errhandler_free;
/// MPI_ERRHANDLER_NULL without memory.  Threads: any.
MPI_Errhandler new_handle(std::shared_ptr<const comm::Errhandler> errhandler);
/// MPI_Errhandler_free: the handle ends with its last use.  Threads: any.
void free_handle(ErrhandlerObject& object) noexcept;

}  // namespace mpi_shim
