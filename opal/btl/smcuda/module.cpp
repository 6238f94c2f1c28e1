// SPDX-License-Identifier: Apache-2.0
// Opening, closing and progress of a smcuda module.
#include "opal/btl/smcuda/module.hpp"

#include <utility>
#include "opal/btl/component.hpp"

namespace opal::btl::smcuda {

Module::Module(const ModuleParameters& parameters, const Settings& settings, Parts parts)
    : sm::Module(parameters, std::move(parts)),
      settings_(settings),
      copier_(std::make_unique<gpu::Copier>(settings.gpu)) {}

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Settings& settings) {
  OPAL_TRY_ASSIGN(Parts parts, Parts::make(parameters, settings.host));
  parts.attributes.also = std::exchange(parts.attributes.transport, "smcuda");
  parts.attributes.gpu_memory = true;
  std::unique_ptr<Module> module{new Module{parameters, settings, std::move(parts)}};
  module->offer(sm::kExtensionGpu);
  OPAL_TRY(module->take_tags());
  OPAL_TRY(module->start());
  return module;
}

Module::~Module() {
  // copier_.reset() runs completions.  If one posts again, refused_access keeps it from using copier_.
  for (auto& [endpoint, peer] : peers_) peer.refused_access = true;
  copier_.reset();  // waits for the copies and completes them
}

Peer& Module::peer_of(btl::Endpoint& endpoint) { return peers_[&endpoint]; }

bool Module::attend(std::size_t& count) noexcept {
  count += copier_->progress();
  return copier_->pending() != 0;
}

void Module::abandon(btl::Endpoint& endpoint, const Error& /*why*/) noexcept {
  const auto found = peers_.find(&endpoint);
  if (found == peers_.end()) return;
  // A copy cannot be cancelled, and its buffers cannot be used before it has ended.
  const Peer& peer = found->second;  // completions may add peers, which keeps the reference valid, not the iterator
  copier_->progress_until([&] { return peer.copying == 0; });
  endpoint.gpu_direct = false;
  peers_.erase(&endpoint);
}

bool Module::arm() noexcept {
  // CUDA events make no descriptor readable, so the caller must poll while copies are pending.
  if (copier_->pending() != 0) return want_attention(), false;
  return sm::Module::arm();
}

rcache::Statistics Module::remote_memory_statistics() const noexcept {
  rcache::Statistics sum;
  for (const auto& [endpoint, peer] : peers_) {
    sum += peer.dropped;
    for (const auto& window : peer.windows) {
      sum += window->kept.statistics();
      sum += window->passing.statistics();
    }
  }
  return sum;
}

Result<void> Module::release_remote_memory() noexcept {
  if (const std::size_t active = copying(); active != 0) {
    return Error{Errc::busy, 0, "smcuda: copies from or to GPU memory of peers are in flight", active};
  }
  for (auto& [endpoint, peer] : peers_) {
    for (const auto& window : peer.windows) {
      window->kept.flush();
      window->passing.flush();
    }
    peer.imports.release();
  }
  return {};
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "smcuda",
      .summary = "Shared memory between processes of one host, and GPU memory by CUDA IPC; takes the place of sm",
      .exclusivity = kExclusivity,
      .vars = &kGroup,
      .usable = [](const config::Store&) noexcept { return gpu::usable(); },
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        Settings settings;
        OPAL_TRY_ASSIGN(settings.own, store.load(kGroup));
        OPAL_TRY_ASSIGN(settings.host, store.load(sm::kGroup));
        OPAL_TRY_ASSIGN(settings.gpu, store.load(gpu::kGroup));
        OPAL_TRY_ASSIGN(const rcache::Config registrations, store.load(rcache::kGroup));
        // Its limits count registrations with a device; they do not apply to mappings of peers' GPU memory.
        settings.cache.leave_pinned = registrations.leave_pinned;
        return only(Module::open(parameters, settings));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::smcuda
