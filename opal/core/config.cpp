// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config.hpp"

#include <string_view>

namespace opal::config {

std::string GroupInfo::full_name(std::size_t index) const {
  std::string text;
  if (std::string_view{name_} != "core") {
    text += name_;
    text += '_';
  }
  return text += var(index).name;
}

}  // namespace opal::config
