// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/config.hpp — the variables of the ofi transport; the only place where these defaults are written.
#pragma once
#include <string>
#include <string_view>

#include "opal/btl/shared/rdm/settings.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::ofi {

inline constexpr std::string_view kSummary = "Networks with a provider in libfabric (EFA, Slingshot, Omni-Path)";
inline constexpr std::uint32_t kExclusivity = 200;  ///< above tcp, below verbs

struct Config {
  std::string provider;
  std::string domain;
  std::string rma = "auto";

  // Not variables: constants, which tests change.
  /// Largest active message, header and payload; less if the provider allows less.  With its frame it fits the buffers
  /// of 16 KiB in which ofi_rxm sends a message without a rendezvous.
  ByteSize max_send = 15_KiB;
  /// Bytes of receive buffers of a module.
  ByteSize receive_memory = 1_MiB;
  /// Most bytes of a put or get in one operation of the provider; less if the provider allows less.
  ByteSize max_request = 1_MiB;
  rdm::Settings settings;
  /// Registers local buffers of puts and gets also for providers that do not require it (FI_MR_LOCAL).
  bool register_local = false;
};

inline constexpr config::Var<Config> kVars[] = {
    {"provider", &Config::provider, config::Level::user,
     "The provider of libfabric, by its name in fi_info (\"efa\", \"tcp;ofi_rxm\").  Empty: the first one of a device "
     "that verbs, sm and tcp do not use; the transport is left out on a host without such a device."},
    {"domain", &Config::domain, config::Level::user,
     "The domain of the provider, by its name in fi_info: a device or network interface (\"cxi0\", \"lo\").  Empty: "
     "the first that the provider offers."},
    {"rma",
     &Config::rma,
     config::Level::tuner,
     "Whether put and get use the provider's one-sided operations. auto: if the provider drives a device; native: "
     "whenever it has them; messages: never.",
     {.choices = "auto|native|messages"}},
};
inline constexpr config::Group<Config> kGroup{"btl_ofi", "OpenFabrics (libfabric) transport", kVars};

}  // namespace opal::btl::ofi
