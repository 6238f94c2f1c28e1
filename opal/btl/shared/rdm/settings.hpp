// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/settings.hpp — the constants of a transport over a network of reliable datagrams.
#pragma once
#include <chrono>
#include <cstdint>

namespace opal::btl::rdm {

/// Constants of a transport, which tests change.
struct Settings {
  std::chrono::milliseconds connect_timeout{30'000};  ///< ModuleParameters::connect_timeout
  /// Time for the connector of an accepted Hello to confirm it; it may compute meanwhile.
  std::chrono::milliseconds confirm_timeout{600'000};
  /// The connection to a peer ends if new Hellos of that peer arrive for longer than this.
  std::chrono::milliseconds superseded_timeout{10'000};
  /// Messages that a peer may have in flight to this process, at most 255.
  std::uint32_t window = 64;
  /// Most send buffers of a module; they are allocated on demand.
  std::uint32_t send_buffers = 1024;
  /// A peer from which nothing arrives for that long gets a ping, whose failure reports its death.
  std::chrono::milliseconds ping_interval{1'000};
  /// Whether the module watches the processes of peers on the same host.  Tests of pings switch it off.
  bool watch_processes = true;
};

}  // namespace opal::btl::rdm
