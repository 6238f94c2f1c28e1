// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/sharing/dma_buf.hpp"

#include "opal/core/system/mapping.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

/// Writes of other devices are seen by kernels of the device that begin later, without a flush by the program.
bool sees_writes_in_order(int device) noexcept {
  int order = 0;
  return driver().device_get_attribute(&order, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device) ==
             CUDA_SUCCESS &&
         order >= int{CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER};
}

}  // namespace

Result<DmaBuf> export_dma_buf(const void* address, std::uint64_t size) noexcept {
  OPAL_TRY_ASSIGN(const Memory memory, inspect(address));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (!memory.contains(begin, size)) return Error{Errc::invalid_argument, 0, "gpu: not in one allocation", size};
  if (memory.kind == MemoryKind::managed || !sees_writes_in_order(memory.device)) {
    return Error{Errc::not_supported, 0, "gpu: the memory or its device has no RDMA"};
  }
  make_synchronous(memory);
  OPAL_TRY_ASSIGN(const WorkContext work, WorkContext::of(memory));
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(work.handle()));
  // The driver takes whole pages of the host; allocations may begin and end inside one.
  const std::uintptr_t first = begin & ~(base_page_size() - 1);
  const std::size_t length = align_up(begin + size - first, base_page_size());
  int fd = -1;
  OPAL_TRY(check(driver().get_range_handle(&fd, first, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                 "cuMemGetHandleForAddressRange"));
  return DmaBuf{Fd{fd}, begin - first};
}

}  // namespace opal::gpu
