// SPDX-License-Identifier: Apache-2.0
// The component: the only part of this folder that the registry uses.
#include "opal/btl/component.hpp"

#include "opal/btl/rails/module.hpp"
#include "opal/btl/verbs/module.hpp"

namespace opal::btl::verbs {
namespace {

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
  config.connect_timeout = parameters.connect_timeout;
  const auto open_rail = [&](const ModuleParameters& below, std::size_t rail) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, Module::open(below, config, rail));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
  OPAL_TRY_ASSIGN(Modules modules, rails::open_rails(parameters, config.rails, open_rail));
  if (auto* const joined = dynamic_cast<rails::Module*>(modules.front().get()); joined != nullptr) {
    for (const auto& rail : joined->rails()) {
      static_cast<Module&>(*rail).set_other_rails(
          [joined](const btl::Endpoint& endpoint) { return joined->has_other_route(endpoint); });
    }
  }
  return modules;
}

constexpr Component kComponent{
    .name = "verbs",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = [](const config::Store&) noexcept { return devices_present(); },
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::verbs
