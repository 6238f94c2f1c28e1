// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/config.hpp — the variables of the simulated transport; the only place where these defaults are written.
// What describes the fabric counts when the fabric is made; what describes a device counts for each module.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::sim {

struct Config {
  // The fabric
  std::string fabric = "default";
  std::uint64_t seed = 1;
  std::uint64_t latency_ns = 1000;
  std::uint64_t jitter_ns = 0;
  ByteSize bandwidth = 10_GiB;
  double loss = 0;
  bool reliable = true;
  std::uint32_t retries = 7;
  std::uint64_t retry_ns = 100'000;
  // A device
  ByteSize max_send = 64_KiB;
  std::uint32_t window = 64;
  std::string memory = "auto";
  ByteSize pin_limit = 64_MiB;
  std::uint32_t rails = 1;
  std::uint32_t registrations = 65536;
  ByteSize registered_bytes = 0_B;
  std::uint64_t register_ns = 1000;
  std::uint64_t register_page_ns = 100;
};

inline constexpr config::Var<Config> kVars[] = {
    {"fabric",
     &Config::fabric,
     {},
     "",
     config::Level::developer,
     "Fabric to plug into: modules of one process with the same name here reach each other."},
    {"seed",
     &Config::seed,
     {},
     "",
     config::Level::developer,
     "Start of the fabric's random numbers: the same seed and the same calls give the same run."},
    {"latency_ns",
     &Config::latency_ns,
     {.min = 0, .max = 1'000'000'000},
     "ns",
     config::Level::developer,
     "Simulated time of one message from device to device."},
    {"jitter_ns",
     &Config::jitter_ns,
     {.min = 0, .max = 1'000'000'000},
     "ns",
     config::Level::developer,
     "Most that a message may take longer; messages of different endpoints overtake each other by it."},
    {"bandwidth",
     &Config::bandwidth,
     {.min = 1_KiB, .max = 1ULL << 50},
     "bytes/s",
     config::Level::developer,
     "Simulated speed of each device's link."},
    {"loss",
     &Config::loss,
     {.min = 0, .max = 1},
     "",
     config::Level::developer,
     "Probability that a packet is lost on its way."},
    {"reliable",
     &Config::reliable,
     {},
     "",
     config::Level::developer,
     "Devices send lost packets again; off, a lost message is gone and the layer above has to notice."},
    {"retries",
     &Config::retries,
     {.min = 0, .max = 1'000'000},
     "retries",
     config::Level::developer,
     "How often a device sends a packet again before it gives the peer up."},
    {"retry_ns",
     &Config::retry_ns,
     {.min = 1, .max = 1'000'000'000'000},
     "ns",
     config::Level::developer,
     "Simulated time after which a lost packet is sent again."},
    {"max_send",
     &Config::max_send,
     {.min = 1_KiB, .max = 1_MiB},
     "bytes",
     config::Level::developer,
     "Largest active message."},
    {"window",
     &Config::window,
     {.min = 1, .max = 65536},
     "messages",
     config::Level::developer,
     "Messages on their way from one endpoint, or not handled yet, before the next is refused."},
    {"memory",
     &Config::memory,
     {.choices = "auto|pinned|on_demand"},
     "",
     config::Level::developer,
     "How a device reaches registered memory: by the pages pinned at registration, by page table at each access, or "
     "pinned where the kernel allows it."},
    {"pin_limit",
     &Config::pin_limit,
     {.min = 0, .max = 1_GiB},
     "bytes",
     config::Level::developer,
     "Larger registrations are reached on demand instead of pinned."},
    {"rails",
     &Config::rails,
     {.min = 1, .max = 4},
     "rails",
     config::Level::developer,
     "Devices that are used as one, each on a fabric of its own: that of the name, and those with /1, /2, ... behind "
     "it; the same on all sides."},
    {"registrations",
     &Config::registrations,
     {.min = 1, .max = 1U << 24},
     "registrations",
     config::Level::developer,
     "Registrations one device holds at a time."},
    {"registered_bytes",
     &Config::registered_bytes,
     {},
     "bytes",
     config::Level::developer,
     "Bytes one device holds registered at a time; 0 sets no limit."},
    {"register_ns",
     &Config::register_ns,
     {.min = 0, .max = 1'000'000'000},
     "ns",
     config::Level::developer,
     "Simulated time that a registration takes."},
    {"register_page_ns",
     &Config::register_page_ns,
     {.min = 0, .max = 1'000'000'000},
     "ns",
     config::Level::developer,
     "Simulated time that a registration takes more for each of its pages."},
};
inline constexpr config::Group<Config> kGroup{"btl_sim", "Simulated fabric in one process", kVars};

}  // namespace opal::btl::sim
