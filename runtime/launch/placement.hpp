// SPDX-License-Identifier: Apache-2.0
// runtime/launch/placement.hpp — which rank runs on which host.  Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/options/options.hpp"

namespace runtime::launch {

/// A host that the job may use.
struct HostSlots {
  std::string name;
  unsigned slots = 1;
};

/// The ranks of each host, in the order of `hosts` and ascending.  More ranks than slots: what is over is dealt out in
/// turn, so that every host is oversubscribed alike.
std::vector<std::vector<std::uint32_t>> place_ranks(Map map, unsigned ranks, const std::vector<HostSlots>& hosts);

/// One line per host: "h1 (4 slots): ranks 0-3".
std::string describe(const std::vector<HostSlots>& hosts, const std::vector<std::vector<std::uint32_t>>& placed);

}  // namespace runtime::launch
