// SPDX-License-Identifier: Apache-2.0
// All that the registry ever sees of the shared-memory transport.
#include "opal/btl/component.hpp"

#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {
namespace {

/// A socket is the one thing that may be forbidden; a network namespace of its own is not needed.
Result<void> usable(const config::Store& /*store*/) noexcept {
  const auto here = Address::here({}, {});
  return here ? Result<void>{} : Result<void>{here.error()};
}

Result<Modules> open(const Host& host, const config::Store& store) {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  return only(Module::open(host, config));
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
