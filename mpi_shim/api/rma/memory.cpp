// SPDX-License-Identifier: Apache-2.0
// MPI_Alloc_mem and MPI_Free_mem: memory of the library's pool that begins on a page, for efficient registration.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "opal/mpool/pool.hpp"

namespace mpi_shim::api {
namespace {

constexpr std::size_t kPage = 4096;  // alignment of blocks, also if the pool puts red zones in front of them

}  // namespace

OPAL_MPI_FUNCTION(int, Alloc_mem, (MPI_Aint size, MPI_Info info, void* baseptr)) {
  Call call{"MPI_Alloc_mem"};
  call.pointer(baseptr, "baseptr");
  call.info(info);
  if (size < 0) call.fail(MPI_ERR_ARG, "argument size is negative");
  if (call.failed()) return call.error();
  const auto pool = call.process().job().memory();
  if (!pool) return call.fail(MPI_ERR_NO_MEM, to_string(pool.error()));
  const auto block = (*pool)->allocate(static_cast<std::size_t>(size), kPage);
  if (!block) return call.fail(MPI_ERR_NO_MEM, to_string(block.error()));
  *static_cast<void**>(baseptr) = *block;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Free_mem, (void* base)) {
  Call call{"MPI_Free_mem"};
  if (call.failed() || base == nullptr) return call.error();
  const auto pool = call.process().job().memory();
  if (!pool || !(*pool)->deallocate(static_cast<std::byte*>(base))) {
    return call.fail(MPI_ERR_BASE, "argument base does not come from MPI_Alloc_mem");
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
