// SPDX-License-Identifier: Apache-2.0
// mpi_shim/comm/errhandler.hpp — an MPI error handler.  Owned by references: those of the communicators and windows
// that use it, and one for each call of MPI_Errhandler_free that is still to come.  Threads: any.
#pragma once
#include <cstdint>
#include <mutex>
#include <utility>

#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/include/mpi.h"
#include "opal/core/sync/spin_lock.hpp"

namespace mpi_shim::comm {

class Errhandler final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::errhandler;
  enum class Kind { fatal, abort, returning, comm_function, win_function };

  /// A predefined one.
  Errhandler(MPI_Errhandler handle, Kind predefined) noexcept
      : Object(kKind, reinterpret_cast<std::uintptr_t>(handle)), kind(predefined) {}
  explicit Errhandler(MPI_Comm_errhandler_function* own) noexcept
      : Object(kKind), kind(Kind::comm_function), function(own) {}
  explicit Errhandler(MPI_Win_errhandler_function* own) noexcept
      : Object(kKind), kind(Kind::win_function), win_function(own) {}

  /// Its handle, which is valid until as many calls of free() as of use().
  MPI_Errhandler use() noexcept {
    const std::lock_guard guard{lock_};
    if (uses_++ == 0 && !is_predefined()) set_findable(true, kKind);
    retain();
    return handle::to_handle<MPI_Errhandler>(*this);
  }
  /// MPI_Errhandler_free.  May destroy the object.
  void free() noexcept {
    if (is_predefined()) return;
    {
      const std::lock_guard guard{lock_};
      if (--uses_ == 0) set_findable(false, kKind);
    }
    release();
  }

  const Kind kind;
  MPI_Comm_errhandler_function* const function = nullptr;     ///< comm_function only
  MPI_Win_errhandler_function* const win_function = nullptr;  ///< win_function only

 private:
  opal::SpinLock lock_;
  unsigned uses_ = 0;  // of the handle
};
using ErrhandlerRef = handle::Ref<Errhandler>;

/// The error handler of a communicator or window.  Threads: any.
class ErrhandlerSlot {
 public:
  [[nodiscard]] ErrhandlerRef get() const {
    const std::lock_guard guard{lock_};
    return errhandler_;
  }
  void set(ErrhandlerRef errhandler) {
    const std::lock_guard guard{lock_};
    std::swap(errhandler_, errhandler);  // so the old one is released after the lock
  }

 private:
  mutable opal::SpinLock lock_;
  ErrhandlerRef errhandler_;
};

}  // namespace mpi_shim::comm
