// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config/config.hpp"

#include <optional>
#include <string_view>

#include "opal/core/config/core_config.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/log.hpp"

namespace opal::config {

std::string GroupInfo::full_name(std::size_t index) const {
  std::string text;
  if (std::string_view{name_} != "core") {
    text += name_;
    text += '_';
  }
  return text += var(index).name;
}

Result<void> apply_to_process(const Store& store) {
  OPAL_TRY_ASSIGN(const CoreConfig config, store.load(kCoreGroup));
  for (const Listing& variable : store.list(kCoreGroup)) {
    // A Store without a setting of `log`, as in tests, does not change the level.
    if (variable.name != "log" || variable.source == Source::builtin) continue;
    if (const std::optional<log::Level> level = log::level_from_name(config.log)) log::set_level(*level);
  }
  return {};
}

}  // namespace opal::config
