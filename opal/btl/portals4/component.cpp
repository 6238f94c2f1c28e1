// SPDX-License-Identifier: Apache-2.0
// The component: the only part of this folder that the registry uses.
#include "opal/btl/component.hpp"

#include "opal/btl/portals4/module.hpp"

namespace opal::btl::portals4 {
namespace {

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
  config.settings.connect_timeout = parameters.connect_timeout;
  return only(Module::open(parameters, config));
}

Result<void> usable(const config::Store& store) noexcept {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  OPAL_TRY(Interface::open(config.library));
  return {};
}

constexpr Component kComponent{
    .name = "portals4",
    .summary = kSummary,
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = &usable,
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::portals4
