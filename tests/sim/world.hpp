// SPDX-License-Identifier: Apache-2.0
// tests/sim/world.hpp — Contexts on a driven fabric: whoever owns the World owns time, faults and chance.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/btl/sim/fabric.hpp"

namespace opal::test {

class SimWorld {
 public:
  explicit SimWorld(btl::sim::Config config);

  [[nodiscard]] btl::sim::Fabric& fabric() noexcept { return *fabric_; }
  /// A number of 0 .. most, from the seed.
  [[nodiscard]] std::uint64_t up_to(std::uint64_t most) noexcept { return fabric_->random().up_to(most); }
  [[nodiscard]] bool chance(double probability) noexcept { return fabric_->random().chance(probability); }

  /// Opens a Context on this fabric and gives it to the world; returns its node.  Fails the test when it cannot.
  /// `max_send`: of its device, in bytes.
  btl::sim::NodeId add(am::Observer& observer, const std::string& max_send = "64K");
  [[nodiscard]] am::Context& context(btl::sim::NodeId node) noexcept { return *contexts_[node]; }
  /// The Context ends, as its process does.
  void remove(btl::sim::NodeId node) noexcept { contexts_[node].reset(); }

  /// Runs the software of every node that has something to do.
  void settle() noexcept;
  /// Runs `most` events, and the software after each; false when nothing is left to happen.
  bool run(std::uint64_t most) noexcept;
  /// Runs until nothing is under way.  Fails the test after an absurd number of events: something goes on for ever.
  void run_out();

 private:
  std::string name_;
  std::shared_ptr<btl::sim::Fabric> fabric_;
  std::vector<std::unique_ptr<am::Context>> contexts_;  // by node; null when removed
};

}  // namespace opal::test
