// SPDX-License-Identifier: Apache-2.0
#include "opal/core/environment.hpp"

#include <unistd.h>

#include <cstdlib>

namespace opal {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string{value};
}

std::vector<std::pair<std::string, std::string>> environment_with_prefix(std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

std::string host_name() {
  char buffer[256] = {};
  if (::gethostname(buffer, sizeof buffer - 1) != 0 || buffer[0] == '\0') return "localhost";
  return buffer;
}

}  // namespace opal
