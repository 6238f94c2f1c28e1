// SPDX-License-Identifier: Apache-2.0
// All that the registry sees of this folder.
#include "opal/btl/component.hpp"

#include "opal/btl/self/module.hpp"

namespace opal::btl::self {
namespace {

constexpr std::uint32_t kExclusivity = 65536;  // nobody else may carry messages to oneself

Result<Modules> open(const Host& host, const config::Store& store) {
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  OPAL_TRY_ASSIGN(auto module, Module::open(host, config));
  Modules modules;
  modules.push_back(std::move(module));
  return modules;
}

constexpr Component kComponent{
    .name = "self",
    .summary = "Messages of a process to itself",
    .exclusivity = kExclusivity,
    .vars = &kGroup,
    .reach = Reach::itself,
    .usable = [](const config::Store&) noexcept { return Result<void>{}; },
    .open = &open,
};

}  // namespace

const Component& component() noexcept { return kComponent; }

}  // namespace opal::btl::self
