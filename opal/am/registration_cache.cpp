// SPDX-License-Identifier: Apache-2.0
#include "opal/am/registration_cache.hpp"

#include "opal/core/log.hpp"

namespace opal::am {

Result<void> RegistrationCache::register_memory(rcache::Registration& registration) noexcept {
  OPAL_TRY_ASSIGN(const MemoryHandle handle, module_.register_memory(registration.base(), registration.length(),
                                                                     static_cast<Rights>(registration.access())));
  registration.cookie().set(handle);
  return {};
}

void RegistrationCache::deregister_memory(rcache::Registration& registration) noexcept {
  if (auto gone = module_.deregister_memory(registration.cookie().get<MemoryHandle>()); !gone) {
    log::error("am", "registration cache: {}", to_string(gone.error()));
  }
}

}  // namespace opal::am
