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
inline constexpr std::uint32_t kExclusivity = 300;  ///< above tcp, below sm

/// How often the device sends again what is not acknowledged.  7 would mean for ever to some devices, and a dead peer
/// would never be reported.
inline constexpr std::uint8_t kRetryCount = 6;
/// How long an accepted connection may take to authenticate itself.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{10'000};
/// How long messages posted before a disconnect may take to be acknowledged.
inline constexpr std::chrono::milliseconds kCloseTimeout{2'000};

struct Config {
  std::string devices;
  std::uint32_t rails = 1;
  ByteSize max_send = 16_KiB;
  ByteSize pin_limit = 0_B;
  std::string on_demand = "auto";
  std::string atomics = "auto";
  std::uint32_t ack_timeout = 18;
  std::chrono::milliseconds connect_timeout{30'000};  ///< no variable: the Context gives it
  std::uint32_t receive_buffers = 8192;

  // Not variables: constants, which tests make smaller.
  /// Most buffers for messages that the device has not sent yet; they are made as they are needed.
  std::uint32_t send_buffers = 1024;
  /// Messages up to this size are given to the device with their data; less where the device allows less.
  ByteSize inline_size = 256_B;
  /// Most messages that one peer may have in flight to us before we have taken the first.  It begins with a few, and
  /// gets more as it needs them and receive_buffers and message_memory have room.
  std::uint32_t credits = 64;
  /// Most bytes of a put or get in one request to the device; less where the device allows less.  A device may count
  /// every lost packet of a request against kRetryCount: the larger, the sooner a lossy network makes a
  /// living peer look dead.
  ByteSize max_request = 64_KiB;
  /// Memory of the message buffers beyond which no peer gets more of them than the least.  0: half of what the process
  /// may lock (ulimit -l), or any amount where that does not bind it.
  ByteSize message_memory = 0_B;
};

inline constexpr config::Var<Config> kVars[] = {
    {"devices", &Config::devices, config::Level::user,
     "Devices that may be used, by name (\"mlx5_0\"), separated by commas, the best first; of those that have an "
     "address "
     "the first btl_verbs_rails are taken.  Empty: all, in the order of their network interfaces."},
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
     "Largest active message, header and payload; the same on all sides.  Every peer costs at least 15 buffers of this "
     "size, at most 64 and seven.",
     {.min = 1_KiB, .max = 1_MiB}},
    {"pin_limit", &Config::pin_limit, config::Level::tuner,
     "Most memory that is registered with the device at a time, beside message buffers; larger regions are reached by "
     "messages.  0: half of the memory of the host, or of what this process's control group may use."},
    {"on_demand",
     &Config::on_demand,
     config::Level::tuner,
     "Whether registered memory is reached by on-demand paging instead of being pinned: auto where the device offers "
     "it and moves the right bytes in a trial when it is opened, yes without a trial, no never.",
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
