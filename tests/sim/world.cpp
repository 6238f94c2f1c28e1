// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/transports.hpp"

namespace opal::test {

SimWorld::SimWorld(btl::sim::Config config, std::uint32_t rails) {
  static int worlds = 0;
  name_ = "world-" + std::to_string(worlds++);
  for (std::uint32_t rail = 0; rail < rails; ++rail) {
    config.fabric = rail == 0 ? name_ : name_ + "/" + std::to_string(rail);
    fabrics_.push_back(*btl::sim::Fabric::drive(config));
  }
}

btl::sim::NodeId SimWorld::add(am::Observer& observer, const std::string& max_send, config::Store store) {
  store.set("am_transports", "sim");
  store.set("am_registrations", "64");
  store.set("btl_sim_fabric", name_);
  store.set("btl_sim_rails", std::to_string(rails()));
  store.set("btl_sim_max_send", max_send);
  auto context = am::Context::open(store, {.observer = &observer, .registry = &all_transports()});
  EXPECT_TRUE(context);
  contexts_.push_back(std::move(*context));
  stopped_.push_back(false);
  // Each Context has one device on each fabric, and no other device plugs in: nodes and contexts count alike.
  return static_cast<btl::sim::NodeId>(contexts_.size() - 1);
}

std::uint64_t SimWorld::now_ns() const noexcept {
  std::uint64_t now = 0;
  for (const auto& fabric : fabrics_) now = std::max(now, fabric->now_ns());
  return now;
}

bool SimWorld::progress(btl::sim::NodeId node) noexcept {
  bool any = false;
  while (contexts_[node] != nullptr && !stopped_[node] && contexts_[node]->progress() != 0) any = true;
  return any;
}

void SimWorld::go_on(btl::sim::NodeId node) noexcept {
  stopped_[node] = false;
  progress(node);
}

void SimWorld::settle() noexcept {
  for (bool happened = true; happened;) {
    happened = false;
    for (const auto& fabric : fabrics_) {
      for (btl::sim::NodeId node = 0; fabric->next_ready(node); happened = true) progress(node);
    }
  }
}

btl::sim::Fabric* SimWorld::next_fabric() const noexcept {
  btl::sim::Fabric* next = nullptr;
  std::uint64_t time = UINT64_MAX;
  for (const auto& fabric : fabrics_) {
    if (const auto event = fabric->next_event(); event && event->time_ns < time) {
      next = fabric.get();
      time = event->time_ns;
    }
  }
  return next;
}

std::optional<btl::sim::NextEvent> SimWorld::next_event() const noexcept {
  const btl::sim::Fabric* const fabric = next_fabric();
  return fabric != nullptr ? fabric->next_event() : std::nullopt;
}

bool SimWorld::step() noexcept {
  btl::sim::Fabric* const fabric = next_fabric();
  return fabric != nullptr && fabric->step();
}

bool SimWorld::run(std::uint64_t most) noexcept {
  settle();
  for (; most > 0; --most) {
    if (!step()) return false;
    settle();
  }
  return true;
}

void SimWorld::run_out() { ASSERT_FALSE(run(2'000'000)) << "two million events, and still something is under way"; }

}  // namespace opal::test
