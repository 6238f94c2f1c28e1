// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/sim/module.hpp"

namespace opal::btl::sim {
namespace {

Result<Modules> open(const Host& host, const config::Store& store) {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  OPAL_TRY_ASSIGN(auto module, Module::open(host, config));
  Modules modules;
  modules.push_back(std::move(module));
  return modules;
}

constexpr Component kComponent{
    .name = "sim",
    .summary = "A simulated fabric between the contexts of one process, for tests",
    .exclusivity = 1,
    .vars = &kGroup,
    .reach = Reach::process,
    .on_request = true,
    .usable = [](const config::Store&) noexcept { return Result<void>{}; },
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::sim
