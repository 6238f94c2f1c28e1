// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/messages/send_buffers.hpp"

#include <algorithm>

#include "opal/core/log.hpp"

namespace opal::btl::ofi {

namespace {
constexpr std::uint32_t kFirst = 32;  // buffers
}

Result<MemoryRegion> register_buffers(const Device& device, const Mapping& memory) noexcept {
  if (!device.needs(FI_MR_LOCAL)) return MemoryRegion{};
  static std::uint64_t next_key = 1;  // only for providers that let the caller choose; local use needs no secret key
  fid_mr* region = nullptr;
  const int result =
      fi_mr_reg(device.domain(), memory.data(), memory.size(), FI_SEND | FI_RECV, 0, next_key++, 0, &region, nullptr);
  if (result != 0) return error_of(result, "fi_mr_reg(message buffers)");
  return MemoryRegion{region};
}

void SendBuffers::grow() noexcept {
  const auto have = static_cast<std::uint32_t>(buffers_.size());
  if (have >= most_) return;
  const std::uint32_t more = std::min(std::max(have, kFirst), most_ - have);
  auto memory = Mapping::anonymous(more * size_, false);
  if (!memory) return;
  auto region = register_buffers(device_, *memory);
  if (!region) {
    log::info("btl.ofi", "no more than {} buffers for sending: {}", have, to_string(region.error()));
    most_ = have;
    return;
  }
  void* const descriptor = *region == nullptr ? nullptr : fi_mr_desc(region->get());
  free_.reserve(have + more);
  for (std::uint32_t i = 0; i < more; ++i) {
    free_.push_back(&buffers_.emplace_back(memory->data() + i * size_, descriptor));
  }
  slabs_.push_back({std::move(*memory), std::move(*region)});
}

}  // namespace opal::btl::ofi
