// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/handles.hpp — the objects of MPI_Group handles, which share an immutable value with communicators
// and windows; and the lookup of error handlers, which may be used at any time.  Threads: any.
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

/// Null: the handle is no error handler.
comm::Errhandler* find_errhandler(MPI_Errhandler handle);

}  // namespace mpi_shim
