// SPDX-License-Identifier: Apache-2.0
// opal/gpu/sharing/dma_buf.hpp — GPU memory as a dma-buf of Linux, with which an RDMA device registers it.
// Threads: any.
#pragma once
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::gpu {

struct DmaBuf {
  Fd file;                   ///< may be closed when the device has registered the memory
  std::uint64_t offset = 0;  ///< of the memory in the dma-buf, bytes
};

/// The dma-buf with the GPU memory [address, +size).  Copies of the program to and from it are synchronous afterwards
/// (docs/design/gpu.md).
/// Errors: not_supported (managed memory, a device or driver without dma-buf, or a device on which a kernel may not see
/// what another device has written before), invalid_argument (not in one allocation), those of inspect() and
/// WorkContext.
OPAL_EXPORT Result<DmaBuf> export_dma_buf(const void* address, std::uint64_t size) noexcept;

}  // namespace opal::gpu
