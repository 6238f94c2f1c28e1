// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/config.hpp — the variables and constants of the tcp transport, with their defaults.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::tcp {

/// Size of the send ring of a connection: data that the kernel has not taken yet.  It is larger if two messages of
/// max_send need more.
inline constexpr ByteSize kSendRing = 1_MiB;
/// After disconnect() an endpoint stays at most this long to send what was posted before.
inline constexpr std::chrono::milliseconds kLingerTimeout{30'000};
/// The destructor of the module waits at most this long until the other hosts have acknowledged all messages.
inline constexpr std::chrono::milliseconds kCloseTimeout{2'000};

struct Config {
  std::string if_include;
  std::string if_exclude;
  std::uint32_t port_min = 0;
  std::uint32_t port_max = 0;
  ByteSize eager = 64_KiB;
  ByteSize max_send = 128_KiB;
  std::chrono::milliseconds peer_timeout{30'000};
  std::chrono::milliseconds connect_timeout{30'000};  ///< not a variable: ModuleParameters::connect_timeout

  // Not variables; tests set smaller values.
  /// Most pending connections (unauthenticated or parked).  Beyond that, the oldest is closed.
  std::uint32_t max_pending = 1024;
  /// Time without an answer of one address of a peer, after which the next address is tried in parallel.
  std::chrono::milliseconds stagger{250};
  /// Time limit for the handshake if the peer's host has accepted the connection: the process may be computing.
  std::chrono::milliseconds welcome_timeout{600'000};
  /// Time limit for the Hello on an accepted connection.
  std::chrono::milliseconds handshake_timeout{10'000};
};

/// The largest max_send that a peer may announce, and the maximum of the variable.
inline constexpr ByteSize kLargestMaxSend = 4_MiB;

inline constexpr config::Var<Config> kVars[] = {
    {"if_include", &Config::if_include, config::Level::user,
     "Interfaces or networks to use, separated by commas (\"eth0,10.1.0.0/16\"). Empty: all that are up."},
    {"if_exclude", &Config::if_exclude, config::Level::user,
     "Interfaces or networks not to use, separated by commas; stronger than btl_tcp_if_include."},
    {"port_min",
     &Config::port_min,
     config::Level::user,
     "First port to try for listening. 0: the kernel chooses.",
     {.min = 0, .max = 65535}},
    {"port_max",
     &Config::port_max,
     config::Level::user,
     "Last port to try for listening. 0: btl_tcp_port_min only.",
     {.min = 0, .max = 65535}},
    {"eager",
     &Config::eager,
     config::Level::tuner,
     "Largest message that is cheaper as one message than as a rendezvous.",
     {.min = 64_B, .max = kLargestMaxSend}},
    {"max_send",
     &Config::max_send,
     config::Level::tuner,
     "Largest active message, header and payload.",
     {.min = 4_KiB, .max = kLargestMaxSend}},
    {"peer_timeout",
     &Config::peer_timeout,
     config::Level::user,
     "A peer whose host answers nothing for so long has failed. 0: the kernel decides.",
     {.min = 0, .max = 86'400'000}},
};
inline constexpr config::Group<Config> kGroup{"btl_tcp", "TCP transport", kVars};

}  // namespace opal::btl::tcp
