// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/config.hpp — the variables of the portals4 transport; the only place where these defaults are
// written.
#pragma once
#include <string>
#include <string_view>

#include "opal/btl/shared/rdm/settings.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::portals4 {

inline constexpr std::string_view kSummary = "Portals 4 networks (BXI)";
inline constexpr std::uint32_t kExclusivity = 190;  ///< above tcp, below ofi

struct Config {
  std::string library = "libportals.so.4";

  // Not variables: constants, which tests change.
  /// Largest active message, header and payload; less if the interface allows less.
  ByteSize max_send = 15_KiB;
  /// Bytes of receive buffers of a module.
  ByteSize receive_memory = 1_MiB;
  /// Most bytes of a put or get in one operation of the interface; less if the interface allows less.
  ByteSize max_request = 16_MiB;
  rdm::Settings settings;
};

inline constexpr config::Var<Config> kVars[] = {
    {"library", &Config::library, config::Level::user,
     "The shared library that implements Portals 4: a name that the dynamic loader finds, or a path."},
};
inline constexpr config::Group<Config> kGroup{"btl_portals4", "Portals 4 transport", kVars};

}  // namespace opal::btl::portals4
