// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include <gtest/gtest.h>

namespace opal::test {

SimWorld::SimWorld(btl::sim::Config config) {
  static int worlds = 0;
  name_ = config.fabric = "world-" + std::to_string(worlds++);
  fabric_ = *btl::sim::Fabric::drive(config);
}

btl::sim::NodeId SimWorld::add(am::Observer& observer, const std::string& max_send) {
  config::Store store;
  store.set("am_transports", "sim");
  store.set("am_registrations", "64");
  store.set("btl_sim_fabric", name_);
  store.set("btl_sim_max_send", max_send);
  auto context = am::Context::open(store, {.observer = &observer});
  EXPECT_TRUE(context);
  contexts_.push_back(std::move(*context));
  // Each Context has one device, and nobody else plugs in: nodes and contexts count alike.
  return static_cast<btl::sim::NodeId>(contexts_.size() - 1);
}

void SimWorld::settle() noexcept {
  btl::sim::NodeId node = 0;
  while (fabric_->next_ready(node)) {
    while (contexts_[node] != nullptr && contexts_[node]->progress() != 0) {
    }
  }
}

bool SimWorld::run(std::uint64_t most) noexcept {
  settle();
  for (; most > 0; --most) {
    if (!fabric_->step()) return false;
    settle();
  }
  return true;
}

void SimWorld::run_out() { ASSERT_FALSE(run(2'000'000)) << "two million events, and still something is under way"; }

}  // namespace opal::test
