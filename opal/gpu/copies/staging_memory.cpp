// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/staging_memory.hpp"

#include <utility>

#include "opal/core/log.hpp"
#include "opal/gpu/lost.hpp"

namespace opal::gpu {

StagingMemory::~StagingMemory() {
  if (!lost_) return;
  keep_for_good(std::move(memory_));  // the device may still write to this memory
  keep_for_good(std::move(pinned_));
}

Result<void> StagingMemory::make(std::size_t size) noexcept {
  if (!empty()) return {};
  OPAL_TRY_ASSIGN(memory_, Mapping::anonymous(size));
  if (auto pinned = Pinned::make(memory_.bytes())) {
    pinned_ = std::move(*pinned);
  } else {
    log::info("gpu", "memory to stage GPU memory in is not pinned: {}", to_string(pinned.error()));
  }
  return {};
}

}  // namespace opal::gpu
