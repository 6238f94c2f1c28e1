// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/pinned.hpp"

#include "opal/core/log.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

Result<Pinned> Pinned::make(MutableBytes memory) noexcept {
  OPAL_TRY_ASSIGN(const WorkContext work, WorkContext::any());
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(work.handle()));
  OPAL_TRY(
      check(driver().host_register(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE), "cuMemHostRegister"));
  return Pinned{memory};
}

void Pinned::undo() noexcept {
  if (memory_.empty()) return;
  // All results are ignored: the registration may have ended with the last context.
  if (const auto work = WorkContext::any()) {
    const auto current = CurrentContext::enter(work->handle());
    driver().host_unregister(memory_.data());
  }
  memory_ = {};
}

Result<StagingMemory> StagingMemory::make(std::size_t size) noexcept {
  StagingMemory memory;
  OPAL_TRY_ASSIGN(memory.pages, Mapping::anonymous(size));
  if (auto pinned = Pinned::make(memory.pages.bytes())) {
    memory.pinned = std::move(*pinned);
  } else {
    log::info("gpu", "memory to stage GPU memory in is not pinned: {}", to_string(pinned.error()));
  }
  return memory;
}

}  // namespace opal::gpu
