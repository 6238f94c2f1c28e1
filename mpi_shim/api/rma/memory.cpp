// SPDX-License-Identifier: Apache-2.0
// MPI_Alloc_mem and MPI_Free_mem: memory of the library's pool that begins on a page, for efficient registration.
#include "mpi_shim/api/forward.hpp"
#include "opal/mpool/pool.hpp"

namespace mpi_shim::api {

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
