// SPDX-License-Identifier: Apache-2.0
// opal/core/config/core_config.hpp — the variables of opal/core.  Their names have no prefix: OPAL_LOG, OPAL_STRICT.
#pragma once
#include <string>

#include "opal/core/config/config.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::config {

struct CoreConfig {
  std::string log = "warn";
  bool strict = false;
  std::string config_file = "";
};

inline constexpr Var<CoreConfig> kCoreVars[] = {
    {"log",
     &CoreConfig::log,
     Level::user,
     "Least important kind of message that is shown.",
     {.choices = "error|warn|info|debug"}},
    {"strict", &CoreConfig::strict, Level::user, "Treat an unknown variable as an error instead of a warning."},
    {"config_file", &CoreConfig::config_file, Level::user,
     "File of settings to read instead of ~/.config/opal/opal.conf; from the environment only."},
};
inline constexpr Group<CoreConfig> kCoreGroup{"core", "Everything", kCoreVars};

class Store;

/// Sets the log level of the process if `store` has a setting of `log`; else the level stays as it is.
/// Errors: invalid_argument for a bad value of any variable of kCoreGroup.
OPAL_EXPORT Result<void> apply_to_process(const Store& store);

}  // namespace opal::config
