// SPDX-License-Identifier: Apache-2.0
// opal/core/build_info.hpp — which libopal this is: version and how it was compiled.  Constants.
#pragma once
#include "opal/core/export.hpp"

namespace opal {

struct BuildInfo {
  const char* version;       ///< "0.1.0"
  const char* compiler;      ///< "g++ 12.2.0"
  const char* build_type;    ///< "Release"
  const char* sanitizers;    ///< "address,undefined"; "" when there are none
  const char* architecture;  ///< "x86_64"
  bool assertions;           ///< whether assert() checks
};

/// The library that this process runs, not the headers it was compiled with.
OPAL_EXPORT const BuildInfo& build_info() noexcept;

}  // namespace opal
