// SPDX-License-Identifier: Apache-2.0
// The entry of the shared-memory transport in the registry of components.
#include "opal/btl/component.hpp"

#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {
namespace {

/// Errors: os (/proc cannot be read, so that the module has no address).
Result<void> usable(const config::Store& /*store*/) noexcept {
  const auto here = Address::here({}, {});
  return here ? Result<void>{} : Result<void>{here.error()};
}

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  return only(Module::open(parameters, config));
}

constexpr Component kComponent{
    .name = "sm",
    .summary = "Shared memory between processes of one host",
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .usable = &usable,
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::sm
