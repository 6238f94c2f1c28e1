// SPDX-License-Identifier: Apache-2.0
#include "opal/core/build_info.hpp"

namespace opal {
namespace {

constexpr BuildInfo kBuildInfo {
  .version = OPAL_VERSION,
#if defined(__clang__)
  .compiler = __VERSION__,  // contains "Clang"
#else
  .compiler = "g++ " __VERSION__,
#endif
      .build_type = OPAL_BUILD_TYPE, .sanitizers = OPAL_SANITIZERS,
#if defined(__x86_64__)
  .architecture = "x86_64",
#elif defined(__aarch64__)
  .architecture = "aarch64",
#else
  .architecture = "other",
#endif
#if defined(NDEBUG)
  .assertions = false,
#else
  .assertions = true,
#endif
};

}  // namespace

const BuildInfo& build_info() noexcept { return kBuildInfo; }

}  // namespace opal
