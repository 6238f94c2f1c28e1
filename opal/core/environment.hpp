// SPDX-License-Identifier: Apache-2.0
// opal/core/environment.hpp — the one place of the project that reads this process's environment.
// Threads: as getenv(3): safe as long as no thread calls setenv() at the same time.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/core/export.hpp"

namespace opal {

/// The value of environment variable `name`, or nothing when it is not set.  An empty value is a value.
OPAL_EXPORT std::optional<std::string> environment(const char* name);

/// Every variable of this process whose name starts with `prefix`, in the order of the environment.
OPAL_EXPORT std::vector<std::pair<std::string, std::string>> environment_with_prefix(std::string_view prefix);

/// The name of this host as gethostname says it; "localhost" when it says nothing.
OPAL_EXPORT std::string host_name();

}  // namespace opal
