// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocations of the driver double.  A pool is one sparse file, so that its descriptor shares all of it.
#include <fcntl.h>

#include <cstring>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

constexpr std::size_t kPoolSize = std::size_t{1} << 32;
constexpr std::size_t kAlignment = 512;

struct Exported {
  std::uint64_t serial;
  std::uint64_t offset;
  std::uint64_t size;
};
static_assert(sizeof(Exported) <= sizeof(CUmemPoolPtrExportData));

Id make_pool(Machine& machine, int device, unsigned long long handle_types) {
  auto store = Store::create(kPoolSize);
  if (store == nullptr) return 0;
  const Id id = machine.new_id();
  machine.pools[id] = {std::move(store), device, handle_types, false, 0};
  return id;
}

CUresult allocate(const Call& call, CUdeviceptr* out, std::size_t size, Id pool_id, CUstream stream) {
  if (call.context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto found = call->pools.find(pool_id);
  if (found == call->pools.end() || found->second.imported || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (call->stream_of(stream, call.context_id()) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Pool& pool = found->second;
  if (size > kPoolSize - pool.next) return CUDA_ERROR_OUT_OF_MEMORY;
  Block block;
  block.base = call->take_addresses(size, kAlignment);
  if (block.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  block.size = size;
  block.kind = Kind::pool;
  block.device = pool.device;
  block.store = pool.store;
  block.offset = pool.next;
  block.pool = pool_id;
  block.handle_types = pool.handle_types;
  pool.next += (size + kAlignment - 1) / kAlignment * kAlignment;
  *out = call->add_block(std::move(block)).base;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace opal::cuda_double

using namespace opal::cuda_double;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device < 0 || static_cast<std::size_t>(device) >= call->devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  Id& id = call->devices[static_cast<std::size_t>(device)].default_pool;
  if (id == 0) id = make_pool(call.machine(), device, 0);  // default pools cannot be exported
  *out = handle_of<CUmemoryPool>(id);
  return id == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const int device = props->location.id;
  if (device < 0 || static_cast<std::size_t>(device) >= call->devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  const Id id = make_pool(call.machine(), device, static_cast<unsigned long long>(props->handleTypes));
  *out = handle_of<CUmemoryPool>(id);
  return id == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return call->pools.erase(id_of(pool)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream stream) {
  Id pool = 0;
  {
    const Call call{__func__};
    if (call.refused() != CUDA_SUCCESS) return call.refused();
    const Context* const context = call.context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    Id& id = call->devices[static_cast<std::size_t>(context->device)].default_pool;
    if (id == 0) id = make_pool(call.machine(), context->device, 0);
    pool = id;
  }
  return cuMemAllocFromPoolAsync(out, size, handle_of<CUmemoryPool>(pool), stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t size, CUmemoryPool pool, CUstream stream) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return allocate(call, out, size, id_of(pool), stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  if (block == nullptr || block->base != address) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind != Kind::pool && block->kind != Kind::pool_imported && block->kind != Kind::legacy) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Stream* const stream = call->stream_of(handle, call.context_id());
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation;
  operation.kind = Operation::Kind::free;
  operation.address = address;
  call->submit(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* /*map*/, size_t /*count*/) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return call->pools.contains(id_of(pool)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->pools.find(id_of(pool));
  if (found == call->pools.end() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((found->second.handle_types & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(found->second.store->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto store = Store::adopt(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)));
  if (store == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Id id = call->new_id();
  call->pools[id] = {std::move(store), 0, 0, true, 0};
  *out = handle_of<CUmemoryPool>(id);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Block* const block = call->block_at(address);
  if (block == nullptr || block->kind != Kind::pool || block->base != address) return CUDA_ERROR_INVALID_VALUE;
  if (block->handle_types == 0) return CUDA_ERROR_INVALID_VALUE;
  const Exported exported{block->store->serial(), block->offset, block->size};
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &exported, sizeof(exported));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  const Call call{__func__};
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const auto found = call->pools.find(id_of(pool));
  if (found == call->pools.end() || !found->second.imported) return CUDA_ERROR_INVALID_VALUE;
  Exported exported{};
  std::memcpy(&exported, data, sizeof(exported));
  const Pool& imported = found->second;
  if (exported.serial != imported.store->serial()) return CUDA_ERROR_INVALID_VALUE;
  if (exported.size > imported.store->size() || exported.offset > imported.store->size() - exported.size) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Block block;
  block.base = call->take_addresses(exported.size, kAlignment);
  if (block.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  block.size = exported.size;
  block.kind = Kind::pool_imported;
  block.device = imported.device;
  block.store = imported.store;
  block.offset = exported.offset;
  block.pool = id_of(pool);
  *out = call->add_block(std::move(block)).base;
  return CUDA_SUCCESS;
}
