// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/config.hpp — the variables of the tcp transport; the only place where these defaults are written.
#pragma once
#include <chrono>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::btl::tcp {

struct Config {
  std::string if_include;
  std::string if_exclude;
  std::uint32_t port_min = 0;
  std::uint32_t port_max = 0;
  ByteSize eager = 64_KiB;
  ByteSize max_send = 128_KiB;
  ByteSize send_ring = 1_MiB;
  std::uint32_t fragments = 256;
  std::uint32_t half_open = 1024;
  ByteSize sndbuf = 0_B;
  ByteSize rcvbuf = 0_B;
  std::string congestion = "auto";
  std::chrono::milliseconds stagger{250};
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::milliseconds welcome_timeout{600'000};
  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds linger_timeout{30'000};
  std::chrono::milliseconds close_timeout{2'000};
  std::chrono::milliseconds peer_timeout{30'000};
};

/// The largest max_send that a peer may announce; larger than any value of our own variable.
inline constexpr ByteSize kLargestMaxSend = 4_MiB;

inline constexpr config::Var<Config> kVars[] = {
    {"if_include",
     &Config::if_include,
     {},
     "",
     config::Level::user,
     "Interfaces or networks to use, separated by commas (\"eth0,10.1.0.0/16\"); empty: all that are up."},
    {"if_exclude",
     &Config::if_exclude,
     {},
     "",
     config::Level::user,
     "Interfaces or networks not to use, separated by commas; stronger than btl_tcp_if_include."},
    {"port_min",
     &Config::port_min,
     {.min = 0, .max = 65535},
     "",
     config::Level::user,
     "First port to try for listening; 0 lets the kernel choose."},
    {"port_max",
     &Config::port_max,
     {.min = 0, .max = 65535},
     "",
     config::Level::user,
     "Last port to try for listening; 0 means btl_tcp_port_min only."},
    {"eager",
     &Config::eager,
     {.min = 64_B, .max = kLargestMaxSend},
     "bytes",
     config::Level::tuner,
     "Up to this size one message is cheaper than asking the peer to get the data."},
    {"max_send",
     &Config::max_send,
     {.min = 4_KiB, .max = kLargestMaxSend},
     "bytes",
     config::Level::tuner,
     "Largest active message, header and payload."},
    {"send_ring",
     &Config::send_ring,
     {.min = 16_KiB, .max = 1_GiB},
     "bytes",
     config::Level::tuner,
     "Bytes per connection that wait for the kernel to take them; at least two messages of btl_tcp_max_send are kept."},
    {"fragments",
     &Config::fragments,
     {.min = 1, .max = 65536},
     "fragments",
     config::Level::tuner,
     "Fragments that may be allocated and not yet sent at a time."},
    {"half_open",
     &Config::half_open,
     {.min = 1, .max = 65536},
     "connections",
     config::Level::tuner,
     "Accepted connections whose peer has not said yet who it is; beyond, the oldest is closed."},
    {"sndbuf",
     &Config::sndbuf,
     {.min = 0, .max = 1_GiB},
     "bytes",
     config::Level::tuner,
     "SO_SNDBUF of every connection; 0 lets the kernel tune it."},
    {"rcvbuf",
     &Config::rcvbuf,
     {.min = 0, .max = 1_GiB},
     "bytes",
     config::Level::tuner,
     "SO_RCVBUF of every connection; 0 lets the kernel tune it."},
    {"congestion",
     &Config::congestion,
     {},
     "",
     config::Level::tuner,
     "Congestion control by name; auto takes reno within one host and the system's choice elsewhere, system always."},
    {"stagger",
     &Config::stagger,
     {.min = 1, .max = 60'000},
     "ms",
     config::Level::tuner,
     "How long one address of a peer may stay silent before the next is tried beside it."},
    {"connect_timeout",
     &Config::connect_timeout,
     {.min = 10, .max = 3'600'000},
     "ms",
     config::Level::user,
     "A peer none of whose addresses has answered by then counts as unreachable."},
    {"welcome_timeout",
     &Config::welcome_timeout,
     {.min = 10, .max = 86'400'000},
     "ms",
     config::Level::tuner,
     "How long a peer whose host has answered may take to answer itself: it may be computing."},
    {"handshake_timeout",
     &Config::handshake_timeout,
     {.min = 10, .max = 3'600'000},
     "ms",
     config::Level::tuner,
     "How long an accepted connection may take to say who it is."},
    {"linger_timeout",
     &Config::linger_timeout,
     {.min = 0, .max = 600'000},
     "ms",
     config::Level::tuner,
     "How long messages posted before a disconnect may take to leave, while the module goes on."},
    {"close_timeout",
     &Config::close_timeout,
     {.min = 0, .max = 600'000},
     "ms",
     config::Level::tuner,
     "How long the end of the module waits for messages posted before to reach the other hosts."},
    {"peer_timeout",
     &Config::peer_timeout,
     {.min = 0, .max = 86'400'000},
     "ms",
     config::Level::user,
     "A peer whose host answers nothing for this long counts as dead; 0 leaves it to the kernel."},
};
inline constexpr config::Group<Config> kGroup{"btl_tcp", "TCP transport", kVars};

}  // namespace opal::btl::tcp
