// SPDX-License-Identifier: Apache-2.0
// The variables of the runtime, for opal-info.
#include <cstddef>
#include <iterator>

#include "opal/core/export.hpp"
#include "runtime/options/config.hpp"

namespace {

constexpr const opal::config::GroupInfo* kGroups[] = {&runtime::launch::kGroup};

}  // namespace

extern "C" OPAL_EXPORT const opal::config::GroupInfo* const* opal_config_groups(std::size_t* count) noexcept {
  *count = std::size(kGroups);
  return kGroups;
}
