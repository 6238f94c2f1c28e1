// SPDX-License-Identifier: Apache-2.0
#include "opal/am/transports/registration_cache.hpp"

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/memory/events/monitor.hpp"

namespace opal::am {

RegistrationCache::RegistrationCache(btl::Module& module, const rcache::Config& config, Handles handles)
    : module_(module), handles_(handles), cache_(*this, config, granularity(module, handles)) {
  if (handles == Handles::of_module && module.transfers() != nullptr) {
    in_pieces_ = std::make_unique<RegistrationCache>(module, config, Handles::of_table);
  }
}

RegistrationCache* RegistrationCache::in_pieces(const void* base, std::uint64_t size) noexcept {
  return size > cache_.config().max_chunk.bytes && in_pieces_ != nullptr && gpu::is_host(base) ? in_pieces_.get()
                                                                                               : nullptr;
}

rcache::Config RegistrationCache::monitored(rcache::Config config) noexcept {
  config.leave_pinned = config.leave_pinned && memory::monitored();
  return config;
}

Result<void> RegistrationCache::register_memory(rcache::Registration& registration) noexcept {
  if (!listening_) {
    // Before the registration: every later release of its memory is reported.
    OPAL_TRY(memory::add_listener(*this));
    listening_ = true;
    if (!memory::monitored()) {
      const memory::Choice* const choice = memory::chosen_monitor();
      log::once(log::Level::warn, "no memory monitor", "am",
                "registrations of memory are not kept, no monitor reports that it is unmapped: {}",
                choice != nullptr ? choice->reasons : "no monitor was started");
    }
  }
  // The monitor does not report that GPU memory is freed, and its handle is cheap to make (gpusm, R17): do not keep it.
  if (!gpu::is_host(registration.base())) registration.use_once();
  const auto rights = static_cast<Rights>(registration.access());
  OPAL_TRY_ASSIGN(const MemoryHandle handle,
                  handles_ == Handles::of_table
                      ? module_.parameters().registrations.add(registration.base(), registration.length(), rights)
                      : module_.register_memory(registration.base(), registration.length(), rights));
  registration.cookie().set(handle);
  return {};
}

void RegistrationCache::deregister_memory(rcache::Registration& registration) noexcept {
  const auto handle = registration.cookie().get<MemoryHandle>();
  const auto gone = handles_ == Handles::of_table ? module_.parameters().registrations.remove(handle)
                                                  : module_.deregister_memory(handle);
  if (!gone) log::error("am", "registration cache: {}", to_string(gone.error()));
}

void RegistrationCache::invalidated(const rcache::Registration& registration) noexcept {
  const auto handle = registration.cookie().get<MemoryHandle>();
  handles_ == Handles::of_table ? module_.parameters().registrations.invalidate(handle)
                                : module_.invalidate_memory(handle);
}

void RegistrationCache::invalidated_part(const rcache::Registration& registration, memory::Range gone) noexcept {
  const auto handle = registration.cookie().get<MemoryHandle>();
  handles_ == Handles::of_table ? module_.parameters().registrations.invalidate_part(handle, gone)
                                : module_.invalidate_memory_part(handle, gone);
}

void RegistrationCache::released(memory::Range range) noexcept {
  cache_.invalidate(reinterpret_cast<const void*>(range.begin), range.size());  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace opal::am
