// SPDX-License-Identifier: Apache-2.0
// opal/core/build_info.hpp — version and build options of libopal.  Constants.
#pragma once
#include "opal/core/export.hpp"

namespace opal {

struct BuildInfo {
  const char* version;       ///< "0.1.0"
  const char* compiler;      ///< "g++ 12.2.0"
  const char* build_type;    ///< "Release"
  const char* sanitizers;    ///< "address,undefined"; "" when there are none
  const char* architecture;  ///< "x86_64"
  bool assertions;           ///< true if assert() is enabled in libopal
};

/// Describes the library that this process has loaded, not the headers that the program was compiled with.
OPAL_EXPORT const BuildInfo& build_info() noexcept;

}  // namespace opal
