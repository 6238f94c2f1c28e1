// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/pinned.hpp"

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

}  // namespace opal::gpu
