// SPDX-License-Identifier: Apache-2.0
// tests/btl/sim/world.hpp — a driven fabric and sides on it, for tests that want time and faults in their own hands.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/sim/module.hpp"
#include "opal/rcache/cache.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {

/// A name that no other fabric of this process has.
inline std::string fresh_fabric_name() {
  static std::atomic<int> next{0};
  return "test-" + std::to_string(next++);
}

/// What am::Context puts between a module and its cache.
struct ModuleDevice final : rcache::Device {
  explicit ModuleDevice(btl::Module& module) : module(module) {}
  Result<void> register_memory(rcache::Registration& registration) noexcept override {
    OPAL_TRY_ASSIGN(const MemoryHandle handle, module.register_memory(registration.base(), registration.length(),
                                                                      static_cast<Rights>(registration.access())));
    registration.cookie().set(handle);
    return {};
  }
  void deregister_memory(rcache::Registration& registration) noexcept override {
    EXPECT_TRUE(module.deregister_memory(registration.cookie().get<MemoryHandle>()));
  }
  void invalidated(const rcache::Registration& registration) noexcept override {
    module.invalidate_memory(registration.cookie().get<MemoryHandle>());
  }
  btl::Module& module;
};

class World {
 public:
  explicit World(btl::sim::Config config = {}) : config_(std::move(config)) {
    config_.fabric = fresh_fabric_name();
    fabric_ = *btl::sim::Fabric::drive(config_);
  }

  [[nodiscard]] btl::sim::Fabric& fabric() noexcept { return *fabric_; }
  /// Adds a side; lives as long as the world.  `device`: variables of btl_sim for it alone.
  Side& add(const std::vector<std::pair<std::string, std::string>>& device = {}) {
    config::Store store;
    store.set("btl_sim_fabric", config_.fabric);
    for (const auto& [name, value] : device) store.set("btl_sim_" + name, value);
    sides_.push_back(std::make_unique<Side>("sim", store));
    return *sides_.back();
  }
  static btl::sim::Module& module(Side& side) { return static_cast<btl::sim::Module&>(side.module()); }
  static btl::sim::NodeId node(Side& side) { return module(side).node(); }
  /// Removes a side, as the end of its process does.
  void remove(Side& side) {
    std::erase_if(sides_, [&](const auto& other) { return other.get() == &side; });
  }

  /// Software runs whatever has arrived.
  void settle() {
    btl::sim::NodeId node = 0;
    while (fabric_->next_ready(node)) {
      for (const auto& side : sides_) {
        if (World::node(*side) != node) continue;
        while (side->module().progress(64) != 0) {
        }
      }
    }
  }
  /// Runs until nothing is under way any more.
  void run() {
    settle();
    while (fabric_->step()) settle();
  }
  /// Runs until `condition` or until nothing is under way; whether it came true.
  [[nodiscard]] bool run_until(const std::function<bool()>& condition) {
    settle();
    while (!condition()) {
      if (!fabric_->step()) return false;
      settle();
    }
    return true;
  }

 private:
  btl::sim::Config config_;
  std::shared_ptr<btl::sim::Fabric> fabric_;
  std::vector<std::unique_ptr<Side>> sides_;
};

}  // namespace opal::test
