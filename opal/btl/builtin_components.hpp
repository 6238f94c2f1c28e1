// SPDX-License-Identifier: Apache-2.0
// opal/btl/builtin_components.hpp — the list that CMake writes from opal_btl_component(); the registry is its only
// user.
#pragma once
#include <span>

#include "opal/btl/component.hpp"

namespace opal::btl {

std::span<const Component* const> builtin_components() noexcept;

}  // namespace opal::btl
