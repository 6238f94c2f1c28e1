// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/smcuda/module.hpp"

namespace opal::btl::smcuda {
namespace {

Result<Modules> open(const Host& host, const config::Store& store) {
  Settings settings;
  OPAL_TRY_ASSIGN(settings.own, store.load(kGroup));
  OPAL_TRY_ASSIGN(settings.host, store.load(sm::kGroup));
  OPAL_TRY_ASSIGN(settings.gpu, store.load(gpu::kGroup));
  OPAL_TRY_ASSIGN(settings.cache, store.load(rcache::kRgpusmGroup));
  OPAL_TRY_ASSIGN(auto module, Module::open(host, settings));
  Modules modules;
  modules.push_back(std::move(module));
  return modules;
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
