// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/config.hpp — the variables of the simulated transport, with their defaults.  The members of the fabric
// have an effect only when the fabric is made; those of a device apply to each module.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::sim {

/// Simulated processor time of a registration, in ns: per registration, and per page in addition.
inline constexpr std::uint64_t kRegisterNs = 1000;
inline constexpr std::uint64_t kRegisterPageNs = 100;

struct Config {
  // The fabric.  Only `fabric` and `loss` are variables; a program sets the others for Fabric::drive().
  std::string fabric = "default";
  /// Seed of the random numbers.  The same seed and the same calls give the same run.
  std::uint64_t seed = 1;
  /// Simulated time of a packet from device to device, plus a random 0 to jitter_ns.  With jitter, packets of different
  /// connections overtake each other.
  std::uint64_t latency_ns = 1000;
  std::uint64_t jitter_ns = 0;
  ByteSize bandwidth = 10_GiB;  ///< of each device's link, bytes per second
  double loss = 0;              ///< probability that a packet is lost, 0 to 1
  /// True: devices retransmit lost packets.  False: a lost message does not arrive, and its sender is not notified.
  bool reliable = true;
  std::uint32_t retries = 7;         ///< of a packet; after them the endpoint dies
  std::uint64_t retry_ns = 100'000;  ///< simulated time after which a lost packet is sent again
  // A device.
  ByteSize max_send = 64_KiB;
  std::uint32_t window = 64;
  std::uint32_t rails = 1;
  std::uint32_t registrations = 65536;
  ByteSize registered_bytes = 0_B;
};

inline constexpr config::Var<Config> kVars[] = {
    {"fabric", &Config::fabric, config::Level::developer,
     "Fabric to plug into: modules of one process with the same name here reach each other."},
    {"loss",
     &Config::loss,
     config::Level::developer,
     "Probability that a packet is lost on its way.",
     {.min = 0, .max = 1}},
    {"max_send", &Config::max_send, config::Level::developer, "Largest active message.", {.min = 1_KiB, .max = 1_MiB}},
    {"window",
     &Config::window,
     config::Level::developer,
     "Messages on their way from one endpoint, or not handled yet, before the next is refused.",
     {.min = 1, .max = 65536},
     "messages"},
    {"rails",
     &Config::rails,
     config::Level::developer,
     "Devices that are used as one, each on a fabric of its own: that of the name, and those with /1, /2, ... after "
     "it; the same on all sides.",
     {.min = 1, .max = 4},
     "rails"},
    {"registrations",
     &Config::registrations,
     config::Level::developer,
     "Registrations one device holds at a time.",
     {.min = 1, .max = 1U << 24},
     "registrations"},
    {"registered_bytes", &Config::registered_bytes, config::Level::developer,
     "Bytes one device holds registered at a time; 0 sets no limit."},
};
inline constexpr config::Group<Config> kGroup{"btl_sim", "Simulated fabric in one process", kVars};

}  // namespace opal::btl::sim
