// SPDX-License-Identifier: Apache-2.0
// Stands in for libopal_runtime, to show that opal-info finds the variables of libraries above libopal.
#include "opal/core/config/config.hpp"
#include "opal/core/export.hpp"

namespace {

using namespace opal;

struct Planted {
  std::uint32_t depth = 3;
};
constexpr config::Var<Planted> kVars[] = {
    {"depth", &Planted::depth, config::Level::user, "How deep it is planted.", {.min = 1, .max = 9}, "feet"}};
constexpr config::Group<Planted> kGroup{"runtime_planted", "Planted by a test", kVars};
constexpr const config::GroupInfo* kGroups[] = {&kGroup};

}  // namespace

extern "C" OPAL_EXPORT const config::GroupInfo* const* opal_config_groups(std::size_t* count) noexcept {
  *count = std::size(kGroups);
  return kGroups;
}
