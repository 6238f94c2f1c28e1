// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/connections/device_order.hpp — the order in which rails take the devices of a host.
// Devices of one IP network reach the same peers, so a process takes the nearest of them.  Devices of different
// networks keep the order of their interfaces: it is the same in all processes, and rail i must reach rail i of the
// peer. Pure functions.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/topology/topology.hpp"

struct sockaddr;

namespace opal::btl::verbs {

/// A device that has an address.
struct Candidate {
  std::string device;
  std::string network;       ///< network_of() its address
  std::size_t listed;        ///< place in btl_verbs_devices; 0 for all if that is empty
  std::size_t nearness = 0;  ///< Topology::nearness() of its local processors to those of this process
};

/// The IP network of an address, "10.1.0.0/16": equal for addresses that reach each other without a router.
OPAL_EXPORT std::string network_of(const sockaddr& address, const sockaddr* mask);

/// True if nearness can change the order: two devices are of one network, and btl_verbs_devices does not order them.
OPAL_EXPORT bool has_choice(const std::vector<Candidate>& candidates) noexcept;

/// Places in `candidates`, the first rail's first: by `listed`, then as in `candidates`; but the places of one network
/// are given to its devices by nearness.
OPAL_EXPORT std::vector<std::size_t> order_of(const std::vector<Candidate>& candidates);

/// The devices in this order with their networks and nearness, for the log: "mlx5_1 (10.1.0.0/16, nearness 2), ...".
OPAL_EXPORT std::string explanation_of(const std::vector<Candidate>& candidates, const std::vector<std::size_t>& order);

}  // namespace opal::btl::verbs
