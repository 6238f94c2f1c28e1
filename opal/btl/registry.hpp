// SPDX-License-Identifier: Apache-2.0
// opal/btl/registry.hpp — the transports a program has, as an ordinary object: tests add fakes, nothing depends on
// static initialisation.  Built-in ones come from opal_btl_component() in CMake.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "opal/btl/component.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class OPAL_EXPORT Registry {
 public:
  /// All transports compiled into libopal, highest exclusivity first.
  static Registry with_builtins();

  void add(const Component& component);  ///< kept by reference: constant records live for ever
  [[nodiscard]] const Component* find(std::string_view name) const noexcept;
  [[nodiscard]] std::span<const Component* const> components() const noexcept { return components_; }

 private:
  std::vector<const Component*> components_;
};

}  // namespace opal::btl
