// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/config.hpp — the variables of the verbs transport; the only place where these defaults are written.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::btl::verbs {

inline constexpr std::string_view kSummary = "RDMA devices (InfiniBand, RoCE, iWARP) through libibverbs and librdmacm";
inline constexpr std::uint32_t kExclusivity = 300;  ///< above ofi, below sm

/// Retransmissions of an unacknowledged packet before the connection fails: so 7 waits.  Some devices take 7
/// retransmissions as no limit and would never report a dead peer.
inline constexpr std::uint8_t kRetryCount = 6;
/// Time for the peer of an accepted connection to authenticate itself.  Requests for a new connection that repeat for
/// this time end the older one.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{10'000};
/// Time for the acknowledgement of messages posted before a disconnect.
inline constexpr std::chrono::milliseconds kCloseTimeout{2'000};

struct Config {
  std::string devices;
  std::uint32_t rails = 1;
  ByteSize max_send = 16_KiB;
  ByteSize pin_limit = 0_B;
  std::string on_demand = "auto";
  std::string atomics = "auto";
  std::uint32_t ack_timeout = 18;
  std::chrono::milliseconds connect_timeout{30'000};  ///< no variable of verbs: ModuleParameters::connect_timeout
  std::uint32_t receive_buffers = 8192;

  // Not variables: constants, some of which tests make smaller.
  /// Most send buffers of a module; they are allocated on demand, while message_memory has room.
  std::uint32_t send_buffers = 1024;
  /// Messages up to this size are posted inline (IBV_SEND_INLINE); less if the device allows less.
  ByteSize inline_size = 128_B;
  /// Largest window of a peer: messages that it may have in flight to this process.  A window starts with 2 messages.
  /// The peer can request to double it.  The module agrees if less than half of receive_buffers is promised and
  /// message_memory has room.  All peers of a device use one shared receive queue.  Each is promised as many buffers
  /// as its window, over iWARP 7 more.
  std::uint32_t credits = 64;
  /// Most bytes of a put or get in one work request; less if the device allows less.  A device may count every lost
  /// packet of a request against kRetryCount, so larger requests make a living peer look dead on a lossy network.
  ByteSize max_request = 64_KiB;
  /// Bytes of message buffers of the process, for sending and receiving, beyond which windows do not grow and no more
  /// send buffers are made.  0: half of what the process may lock (ulimit -l), or no limit if it may lock any amount.
  ByteSize message_memory = 0_B;
};

inline constexpr config::Var<Config> kVars[] = {
    {"devices", &Config::devices, config::Level::user,
     "Devices that may be used, by name (\"mlx5_0\"), separated by commas, the best first; of those that have an "
     "address the first btl_verbs_rails are taken.  Empty: all, in the order of their network interfaces, but of those "
     "in one IP network the nearest to the processors of this process first."},
    {"rails",
     &Config::rails,
     config::Level::user,
     "Devices to use at once: large puts and gets take all of them, and when one loses its port another takes over.  "
     "The "
     "same on all sides, where the first device must reach the first, the second the second.",
     {.min = 1, .max = 4},
     "devices"},
    {"max_send",
     &Config::max_send,
     config::Level::tuner,
     "Largest active message, header and payload; the same on all sides.  Every peer costs at least 2 buffers of this "
     "size, at most 64 (over iWARP 7 more).",
     {.min = 1_KiB, .max = 1_MiB}},
    {"pin_limit", &Config::pin_limit, config::Level::tuner,
     "Most memory that is registered with the device at a time, beside message buffers; larger regions are reached by "
     "messages.  0: half of the memory of the host, or of what this process's control group may use."},
    {"on_demand",
     &Config::on_demand,
     config::Level::tuner,
     "Whether registered memory is reached by on-demand paging instead of being pinned: auto on devices of NVIDIA "
     "(mlx5) that offer it, yes on every device that offers it, no never.",
     {.choices = "auto|no|yes"}},
    {"atomics",
     &Config::atomics,
     config::Level::tuner,
     "64-bit add and compare_swap by the device or by messages. auto: by the device if its atomics are atomic with "
     "those of the processor; device: whenever it has them (then no processor may touch those words); messages: "
     "never.",
     {.choices = "auto|device|messages"}},
    {"ack_timeout",
     &Config::ack_timeout,
     config::Level::tuner,
     "The device waits 4.096 us times two to this power for an acknowledgement; a silent peer counts as dead after "
     "7 of these.",
     {.min = 1, .max = 31}},
    {"receive_buffers",
     &Config::receive_buffers,
     config::Level::tuner,
     "Most receive buffers of all peers together; they are allocated as peers connect.",
     {.min = 64, .max = 1 << 20},
     "buffers"},
};
inline constexpr config::Group<Config> kGroup{"btl_verbs", "Verbs (RDMA) transport", kVars};

}  // namespace opal::btl::verbs
