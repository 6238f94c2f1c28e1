// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config.hpp"

#include <optional>
#include <string_view>

#include "opal/core/core_config.hpp"
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

void apply_to_process(const CoreConfig& config) noexcept {
  if (const std::optional<log::Level> level = log::level_from_name(config.log)) log::set_level(*level);
}

}  // namespace opal::config
