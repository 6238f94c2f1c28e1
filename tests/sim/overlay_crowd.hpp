// SPDX-License-Identifier: Apache-2.0
// tests/sim/overlay_crowd.hpp — launch, fence and broadcast of very many daemons in simulated time.
// Each member is the runtime's own overlay::Node on a device of its own on btl/sim; Contexts, of which a process cannot
// hold 100 000, are left out, so frames travel as one active message each.
// A member's processor does one thing after the other, each for as long as Costs says.
#pragma once
#include <cstdint>

namespace opal::test {

/// What things cost, in nanoseconds; inputs of the model, not measured by it.
struct CrowdCosts {
  std::uint64_t latency = 1'500;    ///< of the network, one way
  std::uint64_t send = 300;         ///< processor time of the sender, a frame
  std::uint64_t receive = 500;      ///< and of the receiver
  std::uint64_t connect = 100'000;  ///< processor time at each end of a new connection
  std::uint64_t fork = 400'000;     ///< processor time of the starter of a daemon
  std::uint64_t boot = 4'000'000;   ///< from there until the daemon runs
};

struct CrowdResult {
  double launch_ms = 0;     ///< from nothing until the root knows that all have got the launch message
  double fence_us = 0;      ///< all arrive at once; until the last one is released
  double broadcast_us = 0;  ///< 1 KiB, until the last one has it
  double frames_each = 0;   ///< sent by a member in launch, fence and broadcast together, on average
  double bytes_each = 0;
  std::uint64_t root_frames = 0;  ///< sent and received by the root
  std::uint64_t root_bytes = 0;
  std::uint64_t device_memory = 0;  ///< heap bytes a member, of its device
  std::uint64_t member_memory = 0;  ///< and of its Node and links
};

/// Daemons start each other along the tree, also in the star (radix count - 1).
CrowdResult run_crowd(std::uint32_t count, unsigned radix, const CrowdCosts& costs);

}  // namespace opal::test
