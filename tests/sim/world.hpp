// SPDX-License-Identifier: Apache-2.0
// tests/sim/world.hpp — Contexts on a driven fabric: the owner of the World owns time, faults and chance.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/btl/sim/fabric.hpp"

namespace opal::test {

class SimWorld {
 public:
  /// `rails`: fabrics, and devices of each Context.
  explicit SimWorld(btl::sim::Config config, std::uint32_t rails = 1);

  [[nodiscard]] std::uint32_t rails() const noexcept { return static_cast<std::uint32_t>(fabrics_.size()); }
  [[nodiscard]] btl::sim::Fabric& fabric(std::uint32_t rail = 0) noexcept { return *fabrics_[rail]; }
  /// The time of the fabric that is furthest.
  [[nodiscard]] std::uint64_t now_ns() const noexcept;
  /// A number of 0 .. most, from the seed.
  [[nodiscard]] std::uint64_t up_to(std::uint64_t most) noexcept { return fabric().random().up_to(most); }
  [[nodiscard]] bool chance(double probability) noexcept { return fabric().random().chance(probability); }

  /// Opens a Context on this fabric and gives it to the world; returns its node, the same on each rail.  Fails the test
  /// when it cannot.  `max_send`: of its device, in bytes.
  btl::sim::NodeId add(am::Observer& observer, const std::string& max_send = "64K", config::Store store = {});
  [[nodiscard]] am::Context& context(btl::sim::NodeId node) noexcept { return *contexts_[node]; }
  /// The Context ends, as its process does.
  void remove(btl::sim::NodeId node) noexcept { contexts_[node].reset(); }
  /// The node's software does not run until go_on(); its devices do.
  void stop(btl::sim::NodeId node) { stopped_[node] = true; }
  void go_on(btl::sim::NodeId node) noexcept;
  [[nodiscard]] bool stopped(btl::sim::NodeId node) const noexcept { return stopped_[node]; }

  /// Runs the software of a node, unless it is stopped, until it has nothing to do; whether it had something.
  bool progress(btl::sim::NodeId node) noexcept;
  /// Runs the software of every node for which something has come.
  void settle() noexcept;
  /// What the next step() does; nothing when nothing is left to happen.
  [[nodiscard]] std::optional<btl::sim::NextEvent> next_event() const noexcept;
  /// Runs the next event of all fabrics, no software; false when there is none.
  bool step() noexcept;
  /// Runs `most` events, and the software after each; false when nothing is left to happen.
  bool run(std::uint64_t most) noexcept;
  /// Runs until nothing is under way.  Fails the test after an absurd number of events: something goes on for ever.
  void run_out();

 private:
  [[nodiscard]] btl::sim::Fabric* next_fabric() const noexcept;

  std::string name_;
  std::vector<std::shared_ptr<btl::sim::Fabric>> fabrics_;  // by rail
  std::vector<std::unique_ptr<am::Context>> contexts_;      // by node; null when removed
  std::vector<bool> stopped_;                               // by node
};

}  // namespace opal::test
