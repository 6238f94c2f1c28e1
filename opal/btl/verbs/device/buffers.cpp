// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/buffers.hpp"

#include <cerrno>

namespace opal::btl::verbs {

Result<void> BufferPool::grow(const Device& device, std::uint32_t count) {
  OPAL_TRY_ASSIGN(Mapping memory, Mapping::anonymous(count * stride(), false));
  const int access = IBV_ACCESS_LOCAL_WRITE;  // ibv_reg_mr is a macro that would combine two enumerations
  MemoryRegion region{ibv_reg_mr(device.domain(), memory.data(), memory.size(), access)};
  if (region == nullptr) return device_error(errno, "ibv_reg_mr(message buffers; see ulimit -l)", memory.size());
  free_.reserve(buffers_.size() + count);
  for (std::uint32_t i = 0; i < count; ++i) {
    buffers_.push_back({memory.data() + i * stride(), region->lkey, static_cast<std::uint32_t>(buffers_.size())});
  }
  for (std::uint32_t i = 0; i < count; ++i) free_.push_back(&buffers_[buffers_.size() - 1 - i]);
  slabs_.push_back({std::move(memory), std::move(region)});
  total_ += count * stride();
  return {};
}

}  // namespace opal::btl::verbs
