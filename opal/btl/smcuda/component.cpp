// SPDX-License-Identifier: Apache-2.0
// The entry of smcuda in the registry of components.
#include "opal/btl/component.hpp"

#include "opal/btl/smcuda/module.hpp"
#include "opal/rcache/config.hpp"

namespace opal::btl::smcuda {
namespace {

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  Settings settings;
  OPAL_TRY_ASSIGN(settings.own, store.load(kGroup));
  OPAL_TRY_ASSIGN(settings.host, store.load(sm::kGroup));
  OPAL_TRY_ASSIGN(settings.gpu, store.load(gpu::kGroup));
  OPAL_TRY_ASSIGN(const rcache::Config registrations, store.load(rcache::kGroup));
  // The limits of rcache::Config count registrations with a device; they do not apply to mappings of peers' GPU memory.
  settings.cache.leave_pinned = registrations.leave_pinned;
  return only(Module::open(parameters, settings));
}

constexpr Component kComponent{
    .name = "smcuda",
    .summary = "Shared memory between processes of one host, and GPU memory by CUDA IPC; takes the place of sm",
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return gpu::usable(); },
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::smcuda
