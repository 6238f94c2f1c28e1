// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/registration_cache.hpp — one module's registrations of protocol buffers, kept by rcache::Cache.
// Listens to memory events from its first registration on.  Without a monitor nothing is kept after its last use.
// Owned by the Context, outlived by its module.  Threads: under the Context's lock, as the module is; events from any.
#pragma once
#include <memory>

#include "opal/btl/module.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::am {

class RegistrationCache final : public rcache::Device, public memory::Listener {
 public:
  /// What a registration makes: whatever the module's handles are, or a handle of the Context's table alone.
  enum class Handles : std::uint8_t { of_module, of_table };

  RegistrationCache(btl::Module& module, const rcache::Config& config, Handles handles = Handles::of_module);
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;
  ~RegistrationCache() override { memory::remove_listener(*this); }

  /// `config` as it may be used in this process: without a monitor nothing is left registered.
  static rcache::Config monitored(rcache::Config config) noexcept;

  /// Its module is about to go; nothing is registered, and the cache is quiesced for good.
  void retire() noexcept {
    memory::remove_listener(*this);
    if (in_pieces_ != nullptr) in_pieces_->retire();
  }

  [[nodiscard]] btl::Module& module() const noexcept { return module_; }
  [[nodiscard]] rcache::Cache& cache() noexcept { return cache_; }
  [[nodiscard]] const rcache::Cache& cache() const noexcept { return cache_; }

  /// Where [base, +size) is exposed without registering all of it: a table's handle, for which the peer is lent the
  /// device's handle of one piece after the other (lent_registrations.hpp).  Null where a handle of the module serves:
  /// the memory is small, a GPU's, or no device has to register it.
  [[nodiscard]] RegistrationCache* in_pieces(const void* base, std::uint64_t size) noexcept;
  /// The same, whatever the memory; null when there is none.
  [[nodiscard]] RegistrationCache* in_pieces() const noexcept { return in_pieces_.get(); }

  Result<void> register_memory(rcache::Registration& registration) noexcept override;
  void deregister_memory(rcache::Registration& registration) noexcept override;
  void invalidated(const rcache::Registration& registration) noexcept override;
  void invalidated_part(const rcache::Registration& registration, memory::Range gone) noexcept override;

  void released(memory::Range range) noexcept override;
  void mapped(memory::Range range) noexcept override { released(range); }

 private:
  /// Devices register pages.  Handles that software checks cover exactly what was asked for: nothing beside a buffer is
  /// ever exposed.
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
