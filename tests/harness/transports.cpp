// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/transports.hpp"

#include <algorithm>
#include <string_view>

#include "opal/btl/sim/component.hpp"

namespace opal::test {
namespace {

constexpr std::string_view kOfiVariables[] = {"btl_ofi_provider", "btl_ofi_domain", "btl_ofi_rma"};

const btl::Registry& builtins() {
  static const btl::Registry registry = btl::Registry::with_builtins();
  return registry;
}
const btl::Component* ofi() noexcept { return builtins().find("ofi"); }
const btl::Component* portals4() noexcept { return builtins().find("portals4"); }

/// `store` with the library of Portals 4 from the environment; else, in a build with the test double, that one.
config::Store with_library(const config::Store& store) {
  config::Store own = store;
  constexpr std::string_view kLibrary = "btl_portals4_library";
#ifdef OPAL_PORTALS4_DOUBLE_PATH
  own.set(kLibrary, OPAL_PORTALS4_DOUBLE_PATH);
#endif
  const config::Store environment = config::Store::from_environment();
  for (const config::Setting& setting : environment.settings()) {
    if (setting.name == kLibrary) own.set(kLibrary, setting.value);
  }
  return own;
}

/// `store` with the variables of ofi from the environment, for tests that run over another provider.  The default is a
/// provider that needs no device, on the loopback interface.
config::Store with_provider(const config::Store& store) {
  config::Store own = store;
  const auto sets = [](const config::Store& settings, std::string_view name) {
    return std::any_of(settings.settings().begin(), settings.settings().end(),
                       [&](const config::Setting& setting) { return setting.name == name; });
  };
  if (sets(own, kOfiVariables[0])) return own;
  const config::Store environment = config::Store::from_environment();
  if (!sets(environment, kOfiVariables[0])) {
    own.set(kOfiVariables[0], "tcp;ofi_rxm");
    own.set(kOfiVariables[1], "lo");
  }
  for (const config::Setting& setting : environment.settings()) {
    for (const std::string_view name : kOfiVariables) {
      if (setting.name == name) own.set(name, setting.value);
    }
  }
  return own;
}

}  // namespace

const btl::Registry& all_transports() {
  static const btl::Component over_provider = [] {
    btl::Component component = *ofi();
    component.usable = [](const config::Store& store) noexcept { return ofi()->usable(with_provider(store)); };
    component.open = [](const btl::ModuleParameters& parameters, const config::Store& store) {
      return ofi()->open(parameters, with_provider(store));
    };
    return component;
  }();
  static const btl::Component over_library = [] {
    btl::Component component = *portals4();
    component.usable = [](const config::Store& store) noexcept { return portals4()->usable(with_library(store)); };
    component.open = [](const btl::ModuleParameters& parameters, const config::Store& store) {
      return portals4()->open(parameters, with_library(store));
    };
    return component;
  }();
  static const btl::Registry registry = [] {
    btl::Registry all;
    for (const btl::Component* component : builtins().components()) {
      all.add(component->name == "ofi" ? over_provider : component->name == "portals4" ? over_library : *component);
    }
    all.add(btl::sim::component());
    return all;
  }();
  return registry;
}

}  // namespace opal::test
