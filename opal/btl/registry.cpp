// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/registry.hpp"

#include <algorithm>

namespace opal::btl {

/// Defined in a source file that CMake generates from the calls of opal_btl_component().
std::span<const Component* const> builtin_components() noexcept;

Registry Registry::with_builtins() {
  Registry registry;
  for (const Component* component : builtin_components()) registry.add(*component);
  return registry;
}

void Registry::add(const Component& component) {
  const auto lower = [&](const Component* other) { return other->exclusivity < component.exclusivity; };
  components_.insert(std::find_if(components_.begin(), components_.end(), lower), &component);
}

const Component* Registry::find(std::string_view name) const noexcept {
  const auto found = std::find_if(components_.begin(), components_.end(),
                                  [&](const Component* component) { return component->name == name; });
  return found == components_.end() ? nullptr : *found;
}

}  // namespace opal::btl
