// SPDX-License-Identifier: Apache-2.0
// opal/am/config.hpp — the variables of the active-message layer; the only place where these defaults are written.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::am {

struct Config {
  std::string transports;      ///< empty: every usable one
  std::string component_path;  ///< empty: no component is loaded
  ByteSize pending_limit = 16_MiB;
  std::chrono::microseconds spin = std::chrono::microseconds{50};
  std::uint32_t ranks_per_core = 0;
  std::chrono::milliseconds connect_timeout = std::chrono::milliseconds{30'000};
  ByteSize large_limit = 256_MiB;
  std::uint32_t registrations = 65536;
  std::string secret_file;  ///< empty: this user's secret file; "none": no proofs (secret_choice.hpp)
};

inline constexpr config::Var<Config> kVars[] = {
    {"transports", &Config::transports, config::Level::user,
     "Transports to use, separated by commas (\"self,tcp\"). A leading ^ means all others. Empty: all usable ones."},
    {"component_path", &Config::component_path, config::Level::user,
     "Directories, separated by colons, from which transports are loaded: each file *.so is one. Its code has all "
     "rights of the process. Ignored if the process has more rights than its user (set-user-ID)."},
    {"pending_limit",
     &Config::pending_limit,
     config::Level::tuner,
     "Most bytes of messages, except answers, that one endpoint keeps while its transport is busy; the same again for "
     "one-sided operations.",
     {.min = 4096, .max = 1ULL << 40}},
    {"large_limit",
     &Config::large_limit,
     config::Level::user,
     "Most bytes of messages larger than max_send that a Context holds in memory of its own. Further ones wait at "
     "their "
     "senders; a larger one is refused.",
     {.min = 65536, .max = 1ULL << 40}},
    {"spin",
     &Config::spin,
     config::Level::tuner,
     "Processor time that wait() polls before it sleeps; about the cost of one wake-up.",
     {.min = 0, .max = 1'000'000}},
    {"ranks_per_core",
     &Config::ranks_per_core,
     config::Level::tuner,
     "Processes that share a core: above 1 a waiting process yields its core between two polls. 0: an MPI process "
     "determines it, other processes assume 1.",
     {.min = 0, .max = 65536},
     "processes"},
    {"connect_timeout",
     &Config::connect_timeout,
     config::Level::user,
     "A peer on another host that does not answer for so long is unreachable.",
     {.min = 10, .max = 3'600'000}},
    {"registrations",
     &Config::registrations,
     config::Level::tuner,
     "Memory registrations that one process holds at a time, for transports that check them in software (32 bytes "
     "each).",
     {.min = 16, .max = 1U << 24},
     "slots"},
    {"secret_file", &Config::secret_file, config::Level::user,
     "File of 16 to 4096 bytes that only its owner may read (chmod 600): processes accept connections only from those "
     "that have the same. Empty: the job's own under a launcher, else ~/.config/opal/secret, which the first process "
     "of "
     "the user makes. none: without a launcher any process that knows an address may connect."},
};
inline constexpr config::Group<Config> kGroup{"am", "Active messages", kVars};

}  // namespace opal::am
