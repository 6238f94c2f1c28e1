// SPDX-License-Identifier: Apache-2.0
// opal/am/registration_cache.hpp — one module's registrations of protocol buffers, kept by rcache::Cache.
// Listens to memory events from its first registration on.  Without a monitor nothing is kept after its last use.
// Owned by the Context, outlived by its module.  Threads: under the Context's lock, as the module is; events from any.
#pragma once
#include "opal/btl/module.hpp"
#include "opal/memory/events.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::am {

class RegistrationCache final : public rcache::Device, public memory::Listener {
 public:
  RegistrationCache(btl::Module& module, const rcache::Config& config) noexcept
      : module_(module), cache_(*this, config, granularity(module)) {}
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;
  ~RegistrationCache() override { memory::remove_listener(*this); }

  /// `config` as it may be used in this process: without a monitor nothing is left registered.
  static rcache::Config monitored(rcache::Config config) noexcept;

  /// Its module is about to go; nothing is registered, and the cache is quiesced for good.
  void retire() noexcept { memory::remove_listener(*this); }

  [[nodiscard]] btl::Module& module() const noexcept { return module_; }
  [[nodiscard]] rcache::Cache& cache() noexcept { return cache_; }
  [[nodiscard]] const rcache::Cache& cache() const noexcept { return cache_; }

  Result<void> register_memory(rcache::Registration& registration) noexcept override;
  void deregister_memory(rcache::Registration& registration) noexcept override;
  void invalidated(const rcache::Registration& registration) noexcept override;

  void released(memory::Range range) noexcept override;

 private:
  /// Devices register pages.  Handles that software checks cover exactly what was asked for: nothing beside a buffer is
  /// ever exposed.
  static std::size_t granularity(const btl::Module& module) noexcept { return module.attributes().own_handles ? 0 : 1; }

  btl::Module& module_;
  bool listening_ = false;
  rcache::Cache cache_;
};

}  // namespace opal::am
