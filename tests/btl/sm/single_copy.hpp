// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/single_copy.hpp — sides that copy by named mechanisms only.
#pragma once
#include <string>
#include <string_view>

#include "tests/conformance/side.hpp"

namespace opal::btl::sm {

/// A configuration with these mechanisms, separated by commas in order of preference.
inline config::Store single_copy_by(std::string_view mechanisms) {
  config::Store store;
  store.set("btl_sm_single_copy", mechanisms);
  return store;
}

/// What an endpoint between two sides of this process that may use these mechanisms says of itself.
inline std::string description_with(std::string_view mechanisms) {
  test::Side a{"sm", single_copy_by(mechanisms)};
  test::Side b{"sm", single_copy_by(mechanisms)};
  return a.connect(b)->describe();
}

}  // namespace opal::btl::sm
