// SPDX-License-Identifier: Apache-2.0
#include "opal/am/region.hpp"

#include <type_traits>
#include <utility>

#include "opal/am/key.hpp"
#include "opal/am/state.hpp"
#include "opal/core/log.hpp"

namespace opal::am {

/// Where a Region is registered: once per transport with handles of its own kind, once for all the others together.
struct Region::State {
  struct Registration {
    btl::Module* module;  // null: the Context's table
    MemoryHandle handle;
  };
  ~State() {
    const Lock::Guard guard{*lock};
    for (const Registration& registration : registrations) {
      btl::Module* const module = registration.module;
      if (auto gone =
              module != nullptr ? module->deregister_memory(registration.handle) : table->remove(registration.handle);
          !gone) {
        log::error("am", "Region: {}", to_string(gone.error()));
      }
    }
  }
  Lock* lock = nullptr;
  btl::RegistrationTable* table = nullptr;
  void* base = nullptr;
  std::uint64_t size = 0;
  std::vector<Registration> registrations;
  std::vector<std::byte> key;
};

Region::Region() noexcept = default;
Region::Region(Region&&) noexcept = default;
Region& Region::operator=(Region&&) noexcept = default;
Region::~Region() = default;
Region::Region(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

void* Region::base() const noexcept { return state_ != nullptr ? state_->base : nullptr; }
std::uint64_t Region::size() const noexcept { return state_ != nullptr ? state_->size : 0; }
ByteSpan Region::key() const noexcept { return state_ != nullptr ? ByteSpan{state_->key} : ByteSpan{}; }

Result<Region> Context::register_memory(void* base, std::uint64_t size, Rights rights) {
  const Lock::Guard guard{state_->lock};
  auto region = std::make_unique<Region::State>();
  region->lock = &state_->lock;
  region->base = base;
  region->size = size;
  bool shared = false;
  for (const auto& module : state_->transports.modules) {
    const bool own = module->attributes().own_handles;
    if (!own && shared) continue;
    auto registered = module->register_memory(base, size, rights);
    if (!registered && own && registered.error().code == Errc::limit_reached) {
      state_->registrations_of(*module).cache().flush();  // what is idle gives way
      registered = module->register_memory(base, size, rights);
    }
    OPAL_TRY_ASSIGN(const MemoryHandle handle, std::move(registered));
    region->registrations.push_back({module.get(), handle});
    append_handle(region->key, own ? module->attributes().transport : std::string_view{}, handle);
    shared = shared || !own;
  }
  return Region{std::move(region)};
}

Result<Region> Context::register_address_space(Rights rights) {
  const Lock::Guard guard{state_->lock};
  auto region = std::make_unique<Region::State>();
  region->lock = &state_->lock;
  region->table = &state_->registrations;
  OPAL_TRY_ASSIGN(const MemoryHandle software, state_->registrations.add_address_space(rights));
  region->registrations.push_back({nullptr, software});
  append_handle(region->key, {}, software);
  for (const auto& module : state_->transports.modules) {
    if (!module->attributes().own_handles) continue;
    const Result<MemoryHandle> handle = module->register_address_space(rights);
    if (!handle && handle.error().code == Errc::not_supported) continue;  // it takes the software handle
    if (!handle) return handle.error();
    region->registrations.push_back({module.get(), *handle});
    append_handle(region->key, module->attributes().transport, *handle);
  }
  return Region{std::move(region)};
}

rcache::Statistics Context::registration_statistics() const noexcept {
  const Lock::Guard guard{state_->lock};
  rcache::Statistics sum;
  for (const auto& registrations : state_->registration_caches) sum += registrations->cache().statistics();
  return sum;
}

ExposedMemory& ExposedMemory::operator=(ExposedMemory&& other) noexcept {
  if (this != &other) {
    reset();
    lock_ = other.lock_;
    lease_ = std::move(other.lease_);
  }
  return *this;
}

void ExposedMemory::reset() noexcept {
  if (!lease_) return;
  const Lock::Guard guard{*lock_};
  lease_.reset();
}

ByteSpan ExposedMemory::handle() const noexcept {
  // The cookie is the MemoryHandle as RegistrationCache stored it; its used bytes are what the peer needs.
  static_assert(std::is_trivially_copyable_v<MemoryHandle>);
  return reinterpret_cast<const MemoryHandle*>(lease_->cookie().bytes().data())->bytes();
}

Result<ExposedMemory> Endpoint::expose(void* base, std::uint64_t size, Rights rights) noexcept {
  const Lock::Guard guard{lock_};
  OPAL_TRY_ASSIGN(rcache::Lease lease, registrations_->cache().get(base, size, static_cast<rcache::Access>(rights)));
  return ExposedMemory{lock_, std::move(lease)};
}

}  // namespace opal::am
