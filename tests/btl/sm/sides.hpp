// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/sides.hpp — sides whose module has constants of its own.
#pragma once
#include "opal/btl/sm/module.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {

/// For Side: opens a module with these settings.
inline test::Side::Open with(const Config& config) {
  return [config](const ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, Module::open(parameters, config));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
}

/// Large gets and puts are done in this way alone, and a helper that is there is waited for.
inline Config forced(std::string_view way, std::string_view single_copy = "cma") {
  Config config;
  config.large_get = way;
  config.single_copy = single_copy;
  config.pipeline_wait = std::chrono::seconds{1};
  return config;
}

}  // namespace opal::btl::sm

/// Ends a test whose transfers need a single copy.
#define SKIP_WITHOUT_CMA(route) \
  if (!(route).one_sided()) GTEST_SKIP() << "needs CMA: a kernel that allows process_vm_readv: " << (route).describe()
