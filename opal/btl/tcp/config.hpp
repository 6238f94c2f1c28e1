// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/config.hpp — the variables of the tcp transport; the only place where these defaults are written.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::tcp {

/// Bytes per connection that wait for the kernel to take them; at least two messages of max_send are kept.
inline constexpr ByteSize kSendRing = 1_MiB;
/// How long messages posted before a disconnect may take to leave, while the module goes on.
inline constexpr std::chrono::milliseconds kLingerTimeout{30'000};
/// How long the end of the module waits for messages posted before to reach the other hosts.
inline constexpr std::chrono::milliseconds kCloseTimeout{2'000};

struct Config {
  std::string if_include;
  std::string if_exclude;
  std::uint32_t port_min = 0;
  std::uint32_t port_max = 0;
  ByteSize eager = 64_KiB;
  ByteSize max_send = 128_KiB;
  std::chrono::milliseconds peer_timeout{30'000};
  std::chrono::milliseconds connect_timeout{30'000};  ///< no variable: the Context gives it

  // Not variables: constants, which tests make smaller.
  /// Connections that are not accepted yet (unauthenticated or parked) at most; beyond, the oldest is closed.
  std::uint32_t max_pending = 1024;
  /// How long one address of a peer may stay silent before the next is tried beside it.
  std::chrono::milliseconds stagger{250};
  /// How long a peer whose host has answered may take to answer itself: it may be computing.
  std::chrono::milliseconds welcome_timeout{600'000};
  /// How long a connection may take for its handshake; also the time between two on_overdue() of a parked one.
  std::chrono::milliseconds handshake_timeout{10'000};
};

/// The largest max_send that a peer may announce; larger than any value of our own variable.
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
