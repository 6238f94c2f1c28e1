// SPDX-License-Identifier: Apache-2.0
// opal/core/environment.hpp — reads the environment of this process; the only code of the project that does so.
// Threads: as getenv(3): safe while no thread calls setenv().
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// The value of environment variable `name`, maybe empty; nullopt if it is not set.
OPAL_EXPORT std::optional<std::string> environment(const char* name);

/// Every variable of this process whose name starts with `prefix`, in the order of the environment.
OPAL_EXPORT std::vector<std::pair<std::string, std::string>> environment_with_prefix(std::string_view prefix);

/// The result of gethostname(2); "localhost" if that fails or is empty.
OPAL_EXPORT std::string host_name();

}  // namespace opal
