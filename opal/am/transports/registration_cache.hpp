// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/registration_cache.hpp — one module's registrations of protocol buffers, kept by rcache::Cache.
// It listens to the memory monitor from its first registration on.  Without a monitor a registration ends with its last
// lease.  Owned by the Context; the module outlives it, or the Context calls retire() first.
// Threads: under the Context's lock, as the module; memory events come from any thread.
#pragma once
#include <memory>

#include "opal/btl/module.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::am {

class RegistrationCache final : public rcache::Device, public memory::Listener {
 public:
  /// What a registration makes: a handle of the module, or only a handle of the Context's registration table.
  enum class Handles : std::uint8_t { of_module, of_table };

  RegistrationCache(btl::Module& module, const rcache::Config& config, Handles handles = Handles::of_module);
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;
  ~RegistrationCache() override { memory::remove_listener(*this); }

  /// Returns `config`, changed to keep no registration without a lease if this process has no memory monitor.
  static rcache::Config monitored(rcache::Config config) noexcept;

  /// Prepares for the destruction of the module.  Requires: the cache is empty and stays quiesced.
  void retire() noexcept {
    memory::remove_listener(*this);
    if (in_pieces_ != nullptr) in_pieces_->retire();
  }

  [[nodiscard]] btl::Module& module() const noexcept { return module_; }
  [[nodiscard]] rcache::Cache& cache() noexcept { return cache_; }
  [[nodiscard]] const rcache::Cache& cache() const noexcept { return cache_; }

  /// The cache that exposes [base, +size) by a handle of the registration table; the device then registers one piece
  /// after the other for the peer (pipelined_transfers.hpp).  Null if this cache should register all of it: the memory
  /// is small or GPU memory, or no device has to register it.
  [[nodiscard]] RegistrationCache* in_pieces(const void* base, std::uint64_t size) noexcept;
  /// That cache if one exists, else null.
  [[nodiscard]] RegistrationCache* in_pieces() const noexcept { return in_pieces_.get(); }

  Result<void> register_memory(rcache::Registration& registration) noexcept override;
  void deregister_memory(rcache::Registration& registration) noexcept override;
  void invalidated(const rcache::Registration& registration) noexcept override;
  void invalidated_part(const rcache::Registration& registration, memory::Range gone) noexcept override;

  void released(memory::Range range) noexcept override;
  void mapped(memory::Range range) noexcept override { released(range); }

 private:
  /// 0: registrations cover whole pages, as devices need it.  1: they cover exactly the requested bytes, so that a
  /// handle that software checks exposes nothing else.
  static std::size_t granularity(const btl::Module& module, Handles handles) noexcept {
    return handles == Handles::of_module && module.attributes().own_handles ? 0 : 1;
  }

  btl::Module& module_;
  const Handles handles_;
  bool listening_ = false;
  std::unique_ptr<RegistrationCache> in_pieces_;
  rcache::Cache cache_;
};

}  // namespace opal::am
