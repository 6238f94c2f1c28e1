// SPDX-License-Identifier: Apache-2.0
// The Component of the tcp transport.
#include "opal/btl/component.hpp"

#include "opal/btl/tcp/module.hpp"

namespace opal::btl::tcp {
namespace {

Result<Modules> open(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
  config.connect_timeout = parameters.connect_timeout;
  return only(Module::open(parameters, config));
}

constexpr Component kComponent{
    .name = "tcp",
    .summary = "TCP connections between any hosts",
    .exclusivity = 100,
    .vars = &kGroup,
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::tcp
