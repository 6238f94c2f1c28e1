// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/messages/send_buffers.hpp — what libfabric needs for a buffer of a message in flight: a context, and a
// registration if the provider requires it (FI_MR_LOCAL).  Owned by the module, which must close its endpoints first.
// Threads: as the module.
#pragma once
#include <deque>
#include <vector>

#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/shared/rdm/send_buffers.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::ofi {

struct SendBuffer : Operation, rdm::SendBuffer {
  explicit SendBuffer(void* memory) noexcept : Operation(Kind::send), descriptor(memory) {}
  void* descriptor;  ///< of its registration; null: none is needed
};

/// Registers memory that the provider itself reads and writes; null: the provider does not require it.
Result<MemoryRegion> register_buffers(const Device& device, const Mapping& memory) noexcept;

class SendBuffers {
 public:
  explicit SendBuffers(const Device& device) noexcept : device_(device) {}
  /// As rdm::SendBuffers::Make.  Errors: those of fi_mr_reg().
  Result<void> make(const Mapping& memory, std::uint32_t count, std::vector<rdm::SendBuffer*>& buffers);

 private:
  const Device& device_;
  std::vector<MemoryRegion> regions_;
  std::deque<SendBuffer> buffers_;  // stable addresses
};

}  // namespace opal::btl::ofi
