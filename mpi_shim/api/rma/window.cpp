// SPDX-License-Identifier: Apache-2.0
// Windows: creation, freeing, queries, hints.  MPI_Alloc_mem and MPI_Free_mem.
#include <fmt/format.h>

#include <algorithm>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/info/info.hpp"
#include "mpi_shim/rma/window.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/mpool/pool.hpp"

namespace mpi_shim::api {
namespace {

/// The hints that MPI_Win_get_info reports, with their default values.  The library uses no_locks and
/// alloc_shared_noncontig, when it creates the window.
const info::Info::Entries& known_hints() {
  static const info::Info::Entries known = {{"no_locks", "false"},
                                            {"accumulate_ordering", "rar,raw,war,waw"},
                                            {"accumulate_ops", "same_op_no_op"},
                                            {"same_size", "false"},
                                            {"same_disp_unit", "false"},
                                            {"alloc_shared_noncontig", "false"}};
  return known;
}

void set_hints(Call& call, MPI_Info handle, info::Info::Entries& hints) {
  call.info(handle);
  const auto* info = handle::find<info::Info>(handle);
  if (info == nullptr) return;
  for (auto& [key, value] : hints) {
    if (const std::string* wanted = info->find(key)) value = *wanted;
  }
}

int create(Call& call, rma::Flavor flavor, void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
           void* baseptr, MPI_Win* win) {
  comm::Communicator* const parent = call.intracomm(comm);
  if (flavor == rma::Flavor::allocate || flavor == rma::Flavor::shared) call.pointer(baseptr, "baseptr");
  if (size < 0) call.fail(MPI_ERR_SIZE, fmt::format("argument size is {}", size));
  if (disp_unit <= 0) call.fail(MPI_ERR_DISP, fmt::format("argument disp_unit is {}", disp_unit));
  if (base == nullptr && size != 0 && flavor == rma::Flavor::create) call.pointer(base, "base");
  rma::Wish wish{flavor, base, static_cast<std::uint64_t>(size), disp_unit, true, false, known_hints()};
  set_hints(call, info, wish.hints);
  const auto is_true = [&](const char* key) {
    return std::ranges::find(wish.hints, std::pair<std::string, std::string>{key, "true"}) != wish.hints.end();
  };
  wish.contiguous = !is_true("alloc_shared_noncontig");
  wish.never_locked = is_true("no_locks");
  rma::Window* made = nullptr;
  const int error = rma::create(call.process().communicators(), *parent, wish, made);
  if (error == MPI_ERR_RMA_SHARED) {
    call.fail(error,
              "the processes of argument comm have no memory in common: they need one host and access to "
              "each other's /proc/PID/fd");
  }
  call.finish(error);
  made->errhandler.set(comm::ErrhandlerRef::share(*find_errhandler(MPI_ERRORS_ARE_FATAL)));
  if (baseptr != nullptr) *static_cast<void**>(baseptr) = reinterpret_cast<void*>(made->own().base);
  *win = made->mpi_handle();
  return MPI_SUCCESS;
}

int create_at(Call& call, void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return create(call, rma::Flavor::create, base, size, disp_unit, info, comm, nullptr, win);
}

int allocate(Call& call, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win,
             rma::Flavor flavor) {
  return create(call, flavor, nullptr, size, disp_unit, info, comm, baseptr, win);
}

/// MPI_Win_shared_query: size and address of the memory of `rank` in this process.
template <class Unit>
int shared_query(Call& call, MPI_Win win, int rank, MPI_Aint* size, Unit* disp_unit, void* baseptr) {
  rma::Window* const window = call.window(win);
  call.target(window, rank);
  call.pointer(baseptr, "baseptr");
  if (window->flavor() == rma::Flavor::dynamic) {
    call.fail(MPI_ERR_RMA_FLAVOR, "MPI_Win_shared_query is not defined for a dynamic window");
  }
  *size = 0;       // the result for a rank without memory, and for memory that is not mapped in this process
  *disp_unit = 1;  // the result if no rank has memory
  *static_cast<void**>(baseptr) = nullptr;
  if (rank == MPI_PROC_NULL) {  // the first rank that has memory
    for (rank = 0; rank < window->size() && window->target(rank).size == 0;) ++rank;
    if (rank == window->size()) return MPI_SUCCESS;
  }
  const rma::Target& target = window->target(rank);
  *disp_unit = static_cast<Unit>(target.disp_unit);
  if (target.mapped == nullptr || target.size == 0 || !opal::gpu::is_host(target.mapped)) return MPI_SUCCESS;
  *size = static_cast<MPI_Aint>(target.size);
  *static_cast<void**>(baseptr) = target.mapped;
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Win_create, create_at)
OPAL_MPI_FORWARD_BOTH(Win_allocate, allocate, rma::Flavor::allocate)
OPAL_MPI_FORWARD_BOTH(Win_allocate_shared, allocate, rma::Flavor::shared)
OPAL_MPI_FORWARD_BOTH(Win_shared_query, shared_query)

OPAL_MPI_CALL(Win_create_dynamic, (Call & call, MPI_Info info, MPI_Comm comm, MPI_Win* win)) {
  return create(call, rma::Flavor::dynamic, nullptr, 0, 1, info, comm, nullptr, win);
}

OPAL_MPI_CALL(Win_attach, (Call & call, MPI_Win win, void* base, MPI_Aint size)) {
  rma::Window* const window = call.window(win);
  if (size < 0) call.fail(MPI_ERR_SIZE, fmt::format("argument size is {}", size));
  if (size != 0) call.pointer(base, "base");
  if (window->flavor() != rma::Flavor::dynamic) {
    call.fail(MPI_ERR_RMA_FLAVOR, "memory can be attached to dynamic windows only");
  }
  return call.finish(window->attach(base, static_cast<std::uint64_t>(size)));
}

OPAL_MPI_CALL(Win_detach, (Call & call, MPI_Win win, const void* base)) {
  rma::Window* const window = call.window(win);
  if (window->flavor() != rma::Flavor::dynamic) {
    call.fail(MPI_ERR_RMA_FLAVOR, "memory can be detached from dynamic windows only");
  }
  const int error = window->detach(base);
  if (error == MPI_ERR_RMA_ATTACH) call.fail(error, "argument base is not the beginning of attached memory");
  return call.finish(error);
}

OPAL_MPI_CALL(Win_free, (Call & call, MPI_Win* win)) {
  rma::Window* const window = call.window(*win);
  if (!window->is_idle()) call.fail(MPI_ERR_RMA_SYNC, "an epoch is open");
  call.finish(window->attributes.clear(*win));
  const int error = window->close();
  const int result = error == MPI_SUCCESS ? MPI_SUCCESS : call.raise_class(error);
  window->retire();  // also after an error
  *win = MPI_WIN_NULL;
  return result;
}

OPAL_MPI_CALL(Win_get_group, (Call & call, MPI_Win win, MPI_Group* group)) {
  return call.answer(group, new_handle(call.window(win)->comm().group()));
}

OPAL_MPI_CALL(Win_set_info, (Call & call, MPI_Win win, MPI_Info info)) {
  rma::Window* const window = call.window(win);
  set_hints(call, info, window->hints);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Win_get_info, (Call & call, MPI_Win win, MPI_Info* info_used)) {
  const rma::Window* const window = call.window(win);
  return call.answer_info(window->hints, info_used);
}

// --- Memory of the library's pool that begins on a page, for efficient registration

OPAL_MPI_CALL(Alloc_mem, (Call & call, MPI_Aint size, MPI_Info info, void* baseptr)) {
  call.pointer(baseptr, "baseptr");
  call.info(info);
  if (size < 0) call.fail(MPI_ERR_ARG, "argument size is negative");
  const auto pool = call.process().job().memory();
  if (!pool) call.fail(MPI_ERR_NO_MEM, to_string(pool.error()));
  const auto block = (*pool)->allocate(static_cast<std::size_t>(size));
  if (!block) call.fail(MPI_ERR_NO_MEM, to_string(block.error()));
  *static_cast<void**>(baseptr) = *block;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Free_mem, (Call & call, void* base)) {
  if (base == nullptr) return MPI_SUCCESS;
  const auto pool = call.process().job().memory();
  if (!pool || !(*pool)->deallocate(static_cast<std::byte*>(base))) {
    call.fail(MPI_ERR_BASE, "argument base does not come from MPI_Alloc_mem");
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
