// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/component.hpp"

#include <fmt/format.h>

#include "opal/btl/rails/module.hpp"
#include "opal/btl/sim/module.hpp"

namespace opal::btl::sim {
namespace {

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  const auto open_rail = [&](const ModuleParameters& below, std::size_t rail) -> Result<std::unique_ptr<btl::Module>> {
    Config own = config;
    if (rail != 0) own.fabric = fmt::format("{}/{}", config.fabric, rail);
    OPAL_TRY_ASSIGN(auto module, Module::open(below, own));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
  return rails::open_rails(parameters, config.rails, open_rail);
}

constexpr Component kComponent{
    .name = "sim",
    .summary = "A simulated fabric between the contexts of one process, for tests",
    .exclusivity = 1,
    .vars = &kGroup,
    .reach = Reach::process,
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::sim
