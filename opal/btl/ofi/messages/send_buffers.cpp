// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/messages/send_buffers.hpp"

namespace opal::btl::ofi {

Result<MemoryRegion> register_buffers(const Device& device, const Mapping& memory) noexcept {
  if (!device.needs(FI_MR_LOCAL)) return MemoryRegion{};
  static std::uint64_t next_key = 1;  // only for providers that let the caller choose; local use needs no secret key
  fid_mr* region = nullptr;
  OPAL_TRY(check(
      fi_mr_reg(device.domain(), memory.data(), memory.size(), FI_SEND | FI_RECV, 0, next_key++, 0, &region, nullptr),
      "fi_mr_reg(message buffers)"));
  return MemoryRegion{region};
}

Result<void> SendBuffers::make(const Mapping& memory, std::uint32_t count, std::vector<rdm::SendBuffer*>& buffers) {
  OPAL_TRY_ASSIGN(MemoryRegion region, register_buffers(device_, memory));
  void* const descriptor = region == nullptr ? nullptr : fi_mr_desc(region.get());
  for (std::uint32_t i = 0; i < count; ++i) buffers.push_back(&buffers_.emplace_back(descriptor));
  if (region != nullptr) regions_.push_back(std::move(region));
  return {};
}

}  // namespace opal::btl::ofi
