// SPDX-License-Identifier: Apache-2.0
// opal/btl/registry.hpp — the list of transports that a Context may open.  An ordinary object: a test may add its own,
// and nothing depends on static initialisation.  opal_btl_component() in CMake adds a built-in transport.
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

  /// Keeps a reference: `component` must outlive the registry.
  void add(const Component& component);
  /// Null: there is none of that name.
  [[nodiscard]] const Component* find(std::string_view name) const noexcept;
  [[nodiscard]] std::span<const Component* const> components() const noexcept { return components_; }

 private:
  std::vector<const Component*> components_;
};

}  // namespace opal::btl
