// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/handles.hpp — the objects of MPI_Group and MPI_Errhandler handles.  Each holds a shared reference to
// an immutable value, which communicators and windows may share.  Threads: any.
#pragma once
#include <memory>

#include "mpi_shim/comm/errhandler.hpp"
#include "mpi_shim/comm/group.hpp"
#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/handle/table.hpp"

namespace mpi_shim {

/// The object of an MPI_Group handle.
struct GroupObject final : handle::Object {
  static constexpr handle::Kind kKind = handle::Kind::group;
  explicit GroupObject(std::shared_ptr<const comm::Group> what) noexcept : Object(kKind), group(std::move(what)) {}
  const std::shared_ptr<const comm::Group> group;
};

/// Null: the handle is no group.
std::shared_ptr<const comm::Group> find_group(MPI_Group handle);
/// A new handle, which MPI_Group_free frees.  MPI_GROUP_EMPTY for an empty group; MPI_GROUP_NULL: no memory.
MPI_Group new_handle(std::shared_ptr<const comm::Group> group);

/// The object of an MPI_Errhandler handle.  An Errhandler has at most one, so MPI_Comm_get_errhandler returns the
/// handle that the program has set.
struct ErrhandlerObject final : handle::Object {
  static constexpr handle::Kind kKind = handle::Kind::errhandler;
  explicit ErrhandlerObject(std::shared_ptr<const comm::Errhandler> what) noexcept
      : Object(kKind), errhandler(std::move(what)) {}
  const std::shared_ptr<const comm::Errhandler> errhandler;
  unsigned uses = 1;  ///< calls of MPI_Errhandler_free until the handle ends; guarded in process/handles.cpp
};

/// Null: the handle is no error handler.
std::shared_ptr<const comm::Errhandler> find_errhandler(MPI_Errhandler handle);
/// The handle of an error handler: a predefined one, the existing one with one more use, or a new one.  The program
/// frees it by MPI_Errhandler_free.  MPI_ERRHANDLER_NULL: no memory.
MPI_Errhandler new_handle(std::shared_ptr<const comm::Errhandler> errhandler);
/// MPI_Errhandler_free: removes one use; the object ends with its last use.
void free_handle(ErrhandlerObject& object) noexcept;

}  // namespace mpi_shim
